package main

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

//go:generate go run ./gen

//go:embed receivers.csv
var shippedCSV []byte

// receiver is a line of the CSV, made fit to be sent to.
type receiver struct {
	Name    string `db:"name"`
	Address string `db:"address"`
}

// importReport says what the import found. Lines are those of the file, the
// header being line 1.
type importReport struct {
	Lines      int // read, without the header
	Receivers  []receiver
	Duplicates int
	Malformed  []malformedLine
}

type malformedLine struct {
	Line int
	Why  string
}

// readCSV reads the file, or the one that ships with the program if path is
// empty, until it has limit receivers. limit 0 means all of them.
func readCSV(path string, limit int) (importReport, error) {
	text, name := shippedCSV, "receivers.csv"
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return importReport{}, fmt.Errorf("cannot read the CSV file: %w: set -csv to a file that can be read", err)
		}
		name = path
	}
	report, err := importCSV(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))), limit)
	if err != nil {
		return report, fmt.Errorf("%s: %w", name, err)
	}
	if got := len(report.Receivers); got < limit {
		return report, fmt.Errorf("%s has %d receivers and -n asks for %d: lower -n, or give a longer file with -csv", name, got, limit)
	}
	if len(report.Receivers) == 0 {
		return report, fmt.Errorf("%s has no receiver: give a file with some with -csv", name)
	}
	return report, nil
}

// importCSV reads lines with at least the columns "name" and "email", in any
// order. A malformed line costs itself, never the import.
func importCSV(r io.Reader, limit int) (importReport, error) {
	var report importReport
	lines := csv.NewReader(r)
	lines.FieldsPerRecord = -1
	nameAt, emailAt, err := readHeader(lines)
	if err != nil {
		return report, err
	}
	seen := map[string]bool{}
	for limit == 0 || len(report.Receivers) < limit {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		report.Lines++
		line, got, err := readLine(lines, fields, nameAt, emailAt, err)
		var parse *csv.ParseError
		switch {
		case errors.As(err, &parse) && parse.Line > parse.StartLine:
			// The quote has swallowed what follows: to go on would lose lines silently.
			return report, fmt.Errorf("the quote that line %d opens is not closed properly (%w): mend the line", parse.StartLine, parse.Err)
		case err != nil:
			report.Malformed = append(report.Malformed, malformedLine{line, err.Error()})
		case seen[mailbox(got.Address)]:
			report.Duplicates++
		default:
			seen[mailbox(got.Address)] = true
			report.Receivers = append(report.Receivers, got)
		}
	}
	return report, nil
}

func readHeader(lines *csv.Reader) (nameAt, emailAt int, err error) {
	header, err := lines.Read()
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read the header: %w: the first line must name the columns, name and email among them", err)
	}
	at := map[string]int{}
	for i, field := range header {
		at[strings.ToLower(strings.TrimSpace(field))] = i
	}
	for _, want := range []string{"name", "email"} {
		if _, ok := at[want]; !ok {
			return 0, 0, fmt.Errorf("the header has no column %q: the first line must name the columns, name and email among them", want)
		}
	}
	return at["name"], at["email"], nil
}

func readLine(lines *csv.Reader, fields []string, nameAt, emailAt int, err error) (int, receiver, error) {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return parse.StartLine, receiver{}, err
	}
	if err != nil {
		return 0, receiver{}, err
	}
	line, _ := lines.FieldPos(0)
	if len(fields) <= max(nameAt, emailAt) {
		return line, receiver{}, fmt.Errorf("has %d fields, too few", len(fields))
	}
	got, err := normalise(fields[nameAt], fields[emailAt])
	return line, got, err
}

// normalise makes a receiver of what people type: spaces around, "Name <address>",
// an upper-case or an international domain.
func normalise(name, email string) (receiver, error) {
	email = strings.TrimSpace(email)
	switch {
	case !utf8.ValidString(name) || !utf8.ValidString(email):
		return receiver{}, errors.New("is not UTF-8")
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }):
		return receiver{}, errors.New("has a control character in the name")
	case email == "":
		return receiver{}, errors.New("has no address")
	}
	parsed, err := mail.ParseAddress(email)
	if err != nil {
		return receiver{}, fmt.Errorf("%q is no address: %s", email, strings.TrimPrefix(err.Error(), "mail: "))
	}
	// The domain follows the last @: a quoted local part may have one too.
	at := strings.LastIndexByte(parsed.Address, '@')
	local, domain := norm.NFC.String(parsed.Address[:at]), parsed.Address[at+1:]
	if domain, err = domains.ToASCII(domain); err != nil {
		return receiver{}, fmt.Errorf("%q is no address: %w", email, err)
	}
	// Limits of RFC 5321, section 4.5.3.1.
	if len(local) > 64 || len(local)+1+len(domain) > 254 {
		return receiver{}, fmt.Errorf("%.80q is no address: too long", email)
	}
	if !strings.Contains(domain, ".") {
		return receiver{}, fmt.Errorf("%q is no address: the domain %q has no dot", email, domain)
	}
	address := local + "@" + domain
	if (&mail.Address{Address: address}).String() != "<"+address+">" {
		return receiver{}, fmt.Errorf("%q has a local part in quotes, which few servers take", email)
	}
	if name = strings.Join(strings.Fields(name), " "); name == "" {
		name = parsed.Name
	}
	return receiver{Name: name, Address: address}, nil
}

// domains maps a domain to the one form that DNS knows, in lower case.
var domains = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(true), idna.VerifyDNSLength(true))

// mailbox is what makes two addresses the same. The standard lets a provider
// tell Anna@ from anna@; none does, and people who appear twice in a file differ
// in just that. So we compare without case, and send to the first spelling.
func mailbox(address string) string { return strings.ToLower(address) }
