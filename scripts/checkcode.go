//go:build ignore

// Checkcode holds the code to its sizes (files and functions) and demands a
// comment on everything exported. Run it at the top of the repository.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxFile = 500 // lines
	maxFunc = 70  // lines
	p90Func = 35  // lines, of functions outside tests
)

type checker struct {
	fset             *token.FileSet
	problems         []string
	sizes            []int // of functions outside tests
	code, tests      int   // lines
	functions, files int
}

func main() {
	c := &checker{fset: token.NewFileSet()}
	if err := filepath.WalkDir(".", c.visit); err != nil {
		fmt.Fprintln(os.Stderr, "checkcode:", err)
		os.Exit(2)
	}
	slices.Sort(c.sizes)
	p90 := 0
	if len(c.sizes) > 0 {
		p90 = c.sizes[len(c.sizes)*9/10]
	}
	if p90 > p90Func {
		c.problems = append(c.problems, fmt.Sprintf("a tenth of the functions outside tests is longer than %d lines; the limit is %d", p90, p90Func))
	}
	fmt.Printf("checkcode: %d files, %d functions (90 %% within %d lines), %d lines of code, %d of tests\n",
		c.files, c.functions, p90, c.code, c.tests)
	for _, p := range c.problems {
		fmt.Fprintln(os.Stderr, p)
	}
	if len(c.problems) > 0 {
		os.Exit(1)
	}
}

func (c *checker) visit(path string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != ".") {
		return filepath.SkipDir
	}
	if d.IsDir() || !strings.HasSuffix(path, ".go") {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(c.fset, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	if !ast.IsGenerated(file) {
		c.file(path, file, bytes.Count(text, []byte{'\n'}))
	}
	return nil
}

func (c *checker) file(path string, file *ast.File, lines int) {
	c.files++
	test := strings.HasSuffix(path, "_test.go") || strings.Contains(path, "internal/integration/")
	if test {
		c.tests += lines
	} else {
		c.code += lines
	}
	if lines > maxFile {
		c.complain(file.Pos(), "the file has %d lines; the limit is %d", lines, maxFile)
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			c.function(f, test)
		}
		if !test && file.Name.Name != "main" {
			c.documented(decl)
		}
	}
}

func (c *checker) function(f *ast.FuncDecl, test bool) {
	lines := c.fset.Position(f.End()).Line - c.fset.Position(f.Pos()).Line + 1
	c.functions++
	if !test {
		c.sizes = append(c.sizes, lines)
	}
	if lines > maxFunc {
		c.complain(f.Pos(), "%s has %d lines; the limit is %d", f.Name.Name, lines, maxFunc)
	}
}

// documented demands a comment on what is exported. Constants and variables may
// share the comment of their group, and a method on an unexported type is free.
func (c *checker) documented(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || ast.IsExported(receiver(d))) && !wellKnown(d) {
			c.complain(d.Pos(), "%s has no comment", d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
					c.complain(s.Pos(), "%s has no comment", s.Name.Name)
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
					c.complain(s.Pos(), "%s has no comment", s.Names[0].Name)
				}
			}
		}
	}
}

// wellKnown methods say nothing new in a comment.
func wellKnown(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{"Error", "Unwrap", "Is", "String", "Len", "Less", "Swap"}, d.Name.Name)
}

func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func (c *checker) complain(pos token.Pos, format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("%s: ", c.fset.Position(pos))+fmt.Sprintf(format, args...))
}
