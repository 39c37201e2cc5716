// Package mail sends rows as mails over SMTP.
//
//	send, err := mail.New(mail.Config[Receiver]{
//		Addr:     "smtp.example.com:587",
//		Username: "news", Password: password,
//		Message: func(item sendonce.Item[Receiver]) (mail.Message, error) {
//			return mail.Message{
//				From:    "News <news@example.com>",
//				To:      []string{item.Value.Address},
//				Subject: "Hello",
//				Text:    "Dear " + item.Value.Name + ",\n",
//			}, nil
//		},
//	})
//	...
//	defer send.Close()
//	d, err := sendonce.New(rows, send, sendonce.Config{})
//
// Each mail has a Message-ID that is made of the row's idempotency key, so that it
// is the same for each try: who gets a mail twice can tell.
//
// # What an answer means
//
// A mail is sent once the server has said yes to the dot that ends it. The
// package knows to the byte whether that dot was written
// (docs/semantics.md, section 9):
//
//	no connection can be made             Throttled: all wait, for 5 s
//	refused before MAIL (greeting, TLS,   Throttled: all wait, for Config.Wait; it is
//	  a wrong password)                     not the row's fault
//	421; 454, 530, 534, 535, 538;         the same
//	  5.7.x in answer to MAIL
//	450, 451, 452 and other 4xx           NotSent: a retry, under any Delivery
//	503                                   NotSent, on another connection
//	552 in answer to RCPT                 NotSent: a full mailbox (RFC 5321, 4.5.3.1.10)
//	other 5xx (550, 552, 553, 554 ...)    Permanent
//	the line breaks, or time is over,     NotSent
//	  before the dot is written
//	the same after it, and no answer      Ambiguous
//	an answer 4xx or 5xx to the dot       as above: a definite refusal
//	a bad address, a line break in a      Permanent: nothing was said to the server
//	  header
//
// Config.Judge changes what refusals mean. If a mail has several receivers and
// one of them is refused, nobody gets it: a row is sent whole.
//
// Connections are kept and used again. One that the server has closed meanwhile
// costs nothing: the mail goes over another one in the same try.
package mail
