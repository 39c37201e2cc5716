package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNormalise(t *testing.T) {
	for _, c := range []struct{ name, email, wantName, wantAddress string }{
		{"Anna Lang", "anna.lang@post.example", "Anna Lang", "anna.lang@post.example"},
		{" Anna \t Lang ", "  anna.lang@post.example\t", "Anna Lang", "anna.lang@post.example"},
		{"Anna", "Anna.Lang@POST.Example", "Anna", "Anna.Lang@post.example"}, // the local part is the receiver's
		{"", "Jörg Weiß <joerg@post.example>", "Jörg Weiß", "joerg@post.example"},
		{"Jörg", `"Weiß, Jörg" <joerg@post.example>`, "Jörg", "joerg@post.example"},
		{"", "<joerg@post.example>", "", "joerg@post.example"},
		{"B", "b@Bücher.example", "B", "b@xn--bcher-kva.example"},
		{"Two\nlines", "x@post.example", "Two lines", "x@post.example"},
		{"J", "jo\u0308rg@post.example", "J", "jörg@post.example"}, // composed
		{"P", "anna+news@post.example", "P", "anna+news@post.example"},
	} {
		got, err := normalise(c.name, c.email)
		require.NoError(t, err, c.email)
		assert.Equal(t, receiver{c.wantName, c.wantAddress}, got, c.email)
	}
}

func TestNormaliseRefuses(t *testing.T) {
	for email, why := range map[string]string{
		"":                               "has no address",
		"   ":                            "has no address",
		"n/a":                            "is no address",
		"anna.post.example":              "is no address",
		"anna@":                          "is no address",
		"@post.example":                  "is no address",
		"anna@@post.example":             "is no address",
		"anna lang@post.example":         "is no address",
		"anna@post..example":             "is no address",
		"anna.@post.example":             "is no address",
		"anna@-post.example":             "is no address",
		"anna@po_st.example":             "is no address",
		"anna@localhost":                 "has no dot",
		"anna@post.example.":             "is no address",
		"a@post.example, b@post.ex":      "is no address",
		"a@post.example; b@post.ex":      "is no address",
		strings.Repeat("a", 65) + "@b.c": "too long",
		"\xff@post.example":              "is not UTF-8",
		"anna@post.example\r\nBcc: x@y":  "is no address",
		`"odd@one"@post.example`:         "in quotes",
	} {
		_, err := normalise("Anna", email)
		if assert.Error(t, err, "%q", email) {
			assert.Contains(t, err.Error(), why, "%q", email)
			assert.NotContains(t, err.Error(), "\n")
		}
	}
	_, err := normalise("Anna\x00", "a@post.example")
	assert.ErrorContains(t, err, "control character")
	_, err = normalise("Anna\xff", "a@post.example")
	assert.ErrorContains(t, err, "UTF-8")
}

func TestImportReportsDirt(t *testing.T) {
	report, err := importCSV(strings.NewReader(strings.Join([]string{
		`phone, Email ,NAME`, // line 1: other columns, in another order
		`1,anna@post.example,Anna`,
		`2,ANNA@post.example,Anna in capitals`, // a duplicate
		`3, anna@POST.example ,Anna with spaces`,
		`4,nobody,Nobody`, // line 5
		``,
		`5,ben@post.example,"Ben, of`, // lines 7 and 8
		`two lines"`,
		`6`, // line 9
		`7,carl@post.example,Carl,and more`,
		`8,dora@post.example,Do"ra`, // line 11: a bare quote
		`9,"<anna@post.example>",Anna again`,
	}, "\r\n")), 0)
	require.NoError(t, err)
	assert.Equal(t, []receiver{{"Anna", "anna@post.example"}, {"Ben, of two lines", "ben@post.example"}, {"Carl", "carl@post.example"}}, report.Receivers)
	assert.Equal(t, 3, report.Duplicates)
	assert.Equal(t, 9, report.Lines)
	require.Len(t, report.Malformed, 3)
	assert.Equal(t, 5, report.Malformed[0].Line)
	assert.Equal(t, malformedLine{9, "has 1 fields, too few"}, report.Malformed[1])
	assert.Equal(t, 11, report.Malformed[2].Line)
	assert.Equal(t, report.Lines, len(report.Receivers)+report.Duplicates+len(report.Malformed), "every line is accounted for")
}

func TestImportRefusesFiles(t *testing.T) {
	for text, why := range map[string]string{
		"":                             "cannot read the header",
		"name,address\na,a@b.example":  `no column "email"`,
		"email\na@b.example":           `no column "name"`,
		"name,email\nA,\"a@b.c\nB,b@b": "the quote that line 2 opens",
	} {
		_, err := importCSV(strings.NewReader(text), 0)
		assert.ErrorContains(t, err, why, "%q", text)
	}
}

func TestShippedFile(t *testing.T) {
	report, err := readCSV("", 0)
	require.NoError(t, err)
	assert.Len(t, report.Receivers, 10_000)
	assert.Equal(t, 10_264, report.Lines)
	assert.Equal(t, 240, report.Duplicates)
	assert.Len(t, report.Malformed, 24)

	report, err = readCSV("", 300)
	require.NoError(t, err)
	assert.Len(t, report.Receivers, 300)

	_, err = readCSV("", 10_001)
	assert.ErrorContains(t, err, "-n asks for 10001")
}

func TestOwnFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own.csv")
	require.NoError(t, os.WriteFile(path, []byte("\ufeffname,email\nAnna,anna@post.example\n"), 0o600))
	report, err := readCSV(path, 0)
	require.NoError(t, err)
	assert.Equal(t, []receiver{{"Anna", "anna@post.example"}}, report.Receivers)

	require.NoError(t, os.WriteFile(path, []byte("name,email\nAnna,nobody\n"), 0o600))
	_, err = readCSV(path, 0)
	assert.ErrorContains(t, err, "has no receiver")
}
