package mail_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"strings"

	"github.com/emersion/go-smtp"

	"github.com/sendonce/sendonce"
	"github.com/sendonce/sendonce/claim/memclaim"
	"github.com/sendonce/sendonce/sender/mail"
)

// receiver is a row.
type receiver struct{ Name, Address string }

// printer is an SMTP server that prints what it gets.
type printer struct{}

func (printer) Mail(from string, _ *smtp.MailOptions) error { fmt.Println("from", from); return nil }
func (printer) Rcpt(to string, _ *smtp.RcptOptions) error   { fmt.Println("to", to); return nil }
func (printer) Reset()                                      {}
func (printer) Logout() error                               { return nil }

func (printer) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "Subject:") || strings.HasPrefix(line, "Dear") {
			fmt.Println(strings.TrimSpace(line))
		}
	}
	return err
}

func Example() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return printer{}, nil }))
	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	send, err := mail.New(mail.Config[receiver]{
		Addr: listener.Addr().String(),
		Message: func(item sendonce.Item[receiver]) (mail.Message, error) {
			return mail.Message{
				From:    "News <news@sender.example>",
				To:      []string{item.Value.Address},
				Subject: "Hello",
				Text:    "Dear " + item.Value.Name + ",\n",
			}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer send.Close()

	rows := memclaim.New[receiver](nil)
	if err := rows.Add(memclaim.Row[receiver]{Key: 1, Value: receiver{"Ann", "ann@example.com"}}); err != nil {
		log.Fatal(err)
	}
	d, err := sendonce.New(rows, send, sendonce.Config{})
	if err != nil {
		log.Fatal(err)
	}
	stats, err := d.Drain(context.Background())
	fmt.Println("sent:", stats.Sent, err)
	// Output:
	// from news@sender.example
	// to ann@example.com
	// Subject: Hello
	// Dear Ann,
	// sent: 1 <nil>
}
