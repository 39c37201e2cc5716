package dialect

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/sendonce/sendonce"
)

// Key is a row's key.
type Key = sendonce.Key

// Args are the named arguments of a statement.
type Args map[string]any

// Keys is an argument that is a list of keys.
type Keys []Key

// Tokens is an argument that is a list of tokens.
type Tokens []int64

// Pairs is an argument that is a list of keys with their tokens.
type Pairs struct {
	Keys   Keys
	Tokens Tokens
}

// Stmt is a statement, rendered once. Its text has named arguments: ":name" for
// ours, and "?" in a condition of the user's, which stands as ":u0", ":u1" ...
type Stmt struct {
	text  string   // as written, for people
	fixed string   // the final text, where arguments are bound by position
	names []string // in the order of binding
	parts []string // the text around the arguments, where ours stand in it as literals
	enc   encoder
}

// encoder makes the value of an argument for a driver, or its literal.
type encoder interface {
	keys(Keys) any
	pairs(Pairs) any
	literal(v any) (string, bool) // false: bind it by position
}

// Text is the statement with its named arguments.
func (s *Stmt) Text() string { return s.text }

// Bind gives the final text and arguments. It panics on a missing argument: that
// is a mistake in this library, and every statement is run by a test.
func (s *Stmt) Bind(a Args) (string, []any) {
	if s.parts == nil {
		args := make([]any, len(s.names))
		for i, n := range s.names {
			args[i] = s.value(a, n)
		}
		return s.fixed, args
	}
	var b strings.Builder
	var args []any
	for i, n := range s.names {
		b.WriteString(s.parts[i])
		v := s.value(a, n)
		if lit, ok := s.enc.literal(v); ok && !isUserArg(n) {
			b.WriteString(lit)
			continue
		}
		b.WriteByte('?')
		args = append(args, v)
	}
	b.WriteString(s.parts[len(s.names)])
	return b.String(), args
}

func (s *Stmt) value(a Args, name string) any {
	v, ok := a[name]
	if !ok {
		panic(fmt.Sprintf("sendonce: no argument %q for: %s", name, s.text))
	}
	switch v := v.(type) {
	case Keys:
		return s.enc.keys(v)
	case Tokens:
		ks := make(Keys, len(v))
		for i, t := range v {
			ks[i] = t
		}
		return s.enc.keys(ks)
	case Pairs:
		return s.enc.pairs(v)
	}
	return v
}

// UserArg is the name of the i-th argument of a user's condition.
func UserArg(i int) string { return "u" + strconv.Itoa(i) }

func isUserArg(name string) bool { return len(name) > 1 && name[0] == 'u' && name[1] <= '9' }

// numbered renders arguments as $1, $2 ..., one number per name.
func numbered(text string, enc encoder) *Stmt {
	s := &Stmt{text: text, enc: enc}
	parts, names := split(text, false)
	var b strings.Builder
	seen := map[string]int{}
	for i, n := range names {
		b.WriteString(parts[i])
		if seen[n] == 0 {
			s.names = append(s.names, n)
			seen[n] = len(s.names)
		}
		b.WriteString("$" + strconv.Itoa(seen[n]))
	}
	b.WriteString(parts[len(names)])
	s.fixed = b.String()
	return s
}

// positional renders them as ?, in order.
func positional(text string, enc encoder) *Stmt {
	parts, names := split(text, false)
	return &Stmt{text: text, enc: enc, names: names, fixed: strings.Join(parts, "?")}
}

// literal keeps ours as literals in the text: where a statement with arguments
// would cost two more round trips.
func literal(text string, enc encoder) *Stmt {
	parts, names := split(text, true)
	return &Stmt{text: text, enc: enc, names: names, parts: parts}
}

// split cuts a text at its arguments. What is quoted is left alone.
func split(text string, backslash bool) (parts, names []string) {
	start := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\'' || c == '"' || c == '`':
			i, _ = endOfQuote(text, i, backslash)
		case c == ':' && i+1 < len(text) && text[i+1] == ':':
			i += 2
		case c == ':' && i+1 < len(text) && text[i+1] >= 'a' && text[i+1] <= 'z':
			end := i + 1
			for end < len(text) && isNameByte(text[end]) {
				end++
			}
			parts = append(parts, text[start:i])
			names = append(names, text[i+1:end])
			start, i = end, end
		default:
			i++
		}
	}
	return append(parts, text[start:]), names
}

func isNameByte(c byte) bool { return c >= 'a' && c <= 'z' || c == '_' || c >= '0' && c <= '9' }

// endOfQuote returns the index after the quote that opens at i. A doubled quote
// closes and opens again, which comes to the same. It is not closed if the text
// ends first.
func endOfQuote(text string, i int, backslash bool) (end int, closed bool) {
	q := text[i]
	for i++; i < len(text); i++ {
		if text[i] == '\\' && backslash && q != '`' {
			i++
			continue
		}
		if text[i] == q {
			return i + 1, true
		}
	}
	return len(text), false
}

// Condition turns the "?" of a user's condition into named arguments, the first
// of which has the given number, and counts them.
func Condition(cond string, backslash bool, first int) (text string, n int) {
	var b strings.Builder
	for i := 0; i < len(cond); {
		switch c := cond[i]; {
		case c == '\'' || c == '"' || c == '`':
			end, _ := endOfQuote(cond, i, backslash)
			b.WriteString(cond[i:end])
			i = end
		case c == '?' && i+1 < len(cond) && cond[i+1] == '?':
			b.WriteByte('?')
			i += 2
		case c == '?':
			if i > 0 && cond[i-1] == ':' { // or it would be a cast
				b.WriteByte(' ')
			}
			b.WriteString(":" + UserArg(first+n))
			n++
			if i++; i < len(cond) && isNameByte(cond[i]) { // "a=?and b=?"
				b.WriteByte(' ')
			}
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String(), n
}

// Flaw says what keeps a user's text from standing in a statement: a quotation
// without an end would swallow what follows, and ":name" is ours. It is "" if
// nothing does.
func Flaw(text string, backslash bool) string {
	for i := 0; i < len(text); {
		if c := text[i]; c != '\'' && c != '"' && c != '`' {
			i++
			continue
		}
		end, closed := endOfQuote(text, i, backslash)
		if !closed {
			return fmt.Sprintf("the quotation that begins at %.20q has no end (in a comment, leave quotes out)", text[i:])
		}
		i = end
	}
	if _, names := split(text, backslash); len(names) > 0 {
		return fmt.Sprintf("it has %q: write ? for a value, and a space behind a colon", ":"+names[0])
	}
	return ""
}

// raw is text that stands in a statement as it is.
type raw string

// listSize is room for a list of keys, if they are numbers of the usual size.
func listSize(n int) int { return 2 + 9*n }

// JSONKeys writes a JSON array.
func JSONKeys(ks Keys) string {
	b := append(make([]byte, 0, listSize(len(ks))), '[')
	for i, k := range ks {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSONKey(b, k)
	}
	return string(append(b, ']'))
}

func appendJSONKey(b []byte, k Key) []byte {
	switch k := k.(type) {
	case int64:
		return strconv.AppendInt(b, k, 10)
	case uint64:
		return strconv.AppendUint(b, k, 10)
	case string:
		return appendJSONString(b, k)
	}
	panic(fmt.Sprintf("sendonce: a key of type %T", k))
}

func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// ParseKeys reads what JSONKeys wrote.
func ParseKeys(text string, kind KeyKind) (Keys, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var vs []any
	if err := dec.Decode(&vs); err != nil {
		return nil, fmt.Errorf("sendonce: the keys of a claim: %w", err)
	}
	ks := make(Keys, len(vs))
	for i, v := range vs {
		var err error
		switch n := v.(type) {
		case json.Number:
			if kind == KeyUint {
				ks[i], err = strconv.ParseUint(n.String(), 10, 64)
			} else {
				ks[i], err = strconv.ParseInt(n.String(), 10, 64)
			}
		case string:
			ks[i] = n
		default:
			err = fmt.Errorf("a key of type %T", v)
		}
		if err != nil {
			return nil, fmt.Errorf("sendonce: the keys of a claim: %w", err)
		}
	}
	return ks, nil
}

// hexText is a string literal that no quoting rule can break. What needs no
// quoting is left readable.
func hexText(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. ") == "" {
		return "'" + s + "'"
	}
	return "_utf8mb4 X'" + hex.EncodeToString([]byte(s)) + "'"
}
