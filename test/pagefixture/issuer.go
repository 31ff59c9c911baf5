package main

import (
	"fmt"
	"io"
	"os"
	"testing"

	"berth/internal/authmethod/issuertest"
)

// serveIssuer serves a provider of identities, at which a person of a group logs in, until the input ends.
func serveIssuer(group string) error {
	p := &provider{}
	defer p.close()
	i := issuertest.New(p)
	claims := map[string]any{"sub": "ann", "groups": []string{group}}
	i.Person(claims, nil)
	fmt.Println(i.URL)
	fmt.Println(i.JWT(claims))
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// provider runs what is made for tests in a program.
type provider struct {
	testing.TB
	ends []func()
}

func (*provider) Helper() {}

func (p *provider) Cleanup(end func()) { p.ends = append(p.ends, end) }

// Fatal ends the program: its output lacks a line that the test reads.
func (p *provider) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

func (p *provider) close() {
	for _, end := range p.ends {
		end()
	}
}
