package gotext_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"berth/internal/gotext"
)

// execute executes a text for a value.
func execute(t *testing.T, config gotext.Config, text string, data any) (string, error) {
	t.Helper()
	set, err := gotext.Parse("text", text, config)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = set.Execute(&out, "text", data)
	return out.String(), err
}

// counter is a value with methods.
type counter struct{ n int }

func (c *counter) Add(n int) int { c.n += n; return c.n }

func (c counter) Double() int { return 2 * c.n }

func (c counter) Hidden() int { return c.n }

type doubler interface{ Double() int }

// A text calls the methods of the table and no others.
func TestMethods_AreThoseOfTheTable(t *testing.T) {
	config := gotext.Config{Methods: []gotext.Methods{
		gotext.MethodsOf[*counter](gotext.Functions{"Add": (*counter).Add}),
		gotext.MethodsOf[doubler](gotext.Functions{"Double": doubler.Double}),
	}}
	data := map[string]any{"c": &counter{1}, "list": []counter{{1}, {2}}}
	got, err := execute(t, config, `{{.c.Add 2}} {{.c.Double}} {{range .list}}{{.Add 1}}{{.Double}} {{end}}{{3 | .c.Add}}`, data)
	if want := "3 6 24 36 6"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}

	for text, want := range map[string]string{
		`{{.c.Hidden}}`:    "can't evaluate field Hidden in type *gotext_test.counter",
		`{{.c.Add}}`:       "wrong number of args for Add: want 1 got 0",
		`{{.c.Add "x"}}`:   "wrong type for value; expected int; got string",
		`{{.c.Double 1}}`:  "wrong number of args for Double: want 0 got 1",
		`{{.c.Double.x}}`:  "can't evaluate field x in type int",
		`{{.list.Double}}`: "can't evaluate field Double in type []gotext_test.counter",
	} {
		_, err := execute(t, config, text, data)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// Package text/template cuts such a number to its last bits.
func TestExecute_RejectsANumberThatOverflows(t *testing.T) {
	config := gotext.Config{Functions: gotext.Functions{"small": func(n uint8) uint8 { return n }}}
	_, err := execute(t, config, `{{small 256}}`, nil)
	if err == nil || !strings.Contains(err.Error(), "expected uint8; got 256") {
		t.Errorf("got %v", err)
	}
}

// A template that calls itself ends with an error before the stack does.
func TestExecute_BoundsTheDepth(t *testing.T) {
	_, err := execute(t, gotext.Config{}, `{{define "x"}}{{template "x"}}{{end}}{{template "x"}}`, nil)
	if err == nil || !strings.Contains(err.Error(), "levels deep") {
		t.Errorf("got %v", err)
	}
}

// bounds notes what an execution tells, and ends it at a number of passes.
type bounds struct {
	said   []string
	passes int
}

var errBound = errors.New("too many")

func (b *bounds) Step() error {
	b.said = append(b.said, "step")
	b.passes--
	if b.passes < 0 {
		return errBound
	}
	return nil
}

func (b *bounds) Enter() error {
	b.said = append(b.said, "enter")
	return nil
}

func (b *bounds) Leave() { b.said = append(b.said, "leave") }

// The bounds see each pass and each template, and end the text.
func TestExecute_AsksTheBounds(t *testing.T) {
	const text = `{{define "x"}}{{range 2}}{{end}}{{end}}{{template "x"}}`
	b := &bounds{passes: 2}
	_, err := execute(t, gotext.Config{Bounds: b}, text, nil)
	if got := strings.Join(b.said, " "); got != "enter enter step step leave leave" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}

	b = &bounds{passes: 1}
	_, err = execute(t, gotext.Config{Bounds: b}, text, nil)
	if !errors.Is(err, errBound) {
		t.Errorf("got %v, want the error of the bounds", err)
	}
}

// An error has the place, and its fault has names and types but no value.
func TestError_HasItsPlace(t *testing.T) {
	config := gotext.Config{Functions: gotext.Functions{
		"fails": func(s string) (string, error) { return "", errors.New(s) },
	}}
	data := map[string]any{"secret": "hunter2", "list": []string{"hunter2"}}
	for text, want := range map[string]string{
		"x\n {{.secret.x}}":        `template: text:2:10: executing "text" at <.secret.x>: can't evaluate field x in type string`,
		`{{range .secret}}{{end}}`: `template: text:1:8: executing "text" at <.secret>: range can't iterate over a value of type string`,
		`{{len 1}}`:                `template: text:1:2: executing "text" at <len>: error calling len: len of type int`,
		`{{define "x"}}{{nil}}{{end}}{{template "x"}}`: `template: text:1:16: executing "x" at <nil>: nil is not a command`,
	} {
		_, err := execute(t, config, text, data)
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
		_, isFault := errors.AsType[gotext.Fault](err)
		if !isFault {
			t.Errorf("%s: it is no fault of the text", text)
		}
	}

	_, err := execute(t, config, `{{fails .secret}}`, data)
	failed, ok := errors.AsType[*gotext.Error](err)
	if !ok || failed.Call != "fails" || failed.Cause.Error() != "hunter2" {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(failed.Where(), "hunter2") {
		t.Errorf("the place has a value: %s", failed.Where())
	}
	_, isFault := errors.AsType[gotext.Fault](err)
	if isFault {
		t.Error("the error of a function is a fault of the text")
	}
}

// full is a writer that fails.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestExecute_ReturnsTheErrorOfTheWriter(t *testing.T) {
	for _, text := range []string{`x`, `{{1}}`, `{{range 2}}x{{end}}`, `{{.}}`} {
		set, err := gotext.Parse("text", text, gotext.Config{})
		if err != nil {
			t.Fatal(err)
		}
		err = set.Execute(full{}, "text", nil)
		if !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

func BenchmarkExecute(b *testing.B) {
	set, err := gotext.Parse("text", benchText, gotext.Config{})
	if err != nil {
		b.Fatal(err)
	}
	data := newThing()
	for b.Loop() {
		err := set.Execute(io.Discard, "text", data)
		if err != nil {
			b.Fatal(err)
		}
	}
}
