package gotext_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"strings"
	"testing"
	"text/template"
	"time"

	"berth/internal/gotext"
)

// thing has a value of each kind that a text may meet.
type thing struct {
	Text    string
	Whole   int
	Small   uint8
	Float   float64
	Yes     bool
	Any     any
	Nothing any
	List    []string
	Fixed   [2]int
	Map     map[string]int
	Byte    map[uint8]string
	Anys    map[string]any
	Nested  *thing
	None    *thing
	Time    time.Time
	Long    time.Duration
	Err     error
	NoErr   error
	Call    func(string, ...int) (string, error)
	Seq     iter.Seq[int]
	Seq2    iter.Seq2[string, int]
	Color   color
	Points  map[point]string
	embedded
	*lost
	hidden int
}

type embedded struct{ Inner string }
type lost struct{ Gone string }
type point struct{ X, Y int }
type color int

func (c *color) String() string { return fmt.Sprintf("color %d", *c) }

func newThing() *thing {
	return &thing{
		Text: "text", Whole: -3, Small: 200, Float: 1.5, Yes: true, Any: "any",
		List:  []string{"a", "b", "c"},
		Fixed: [2]int{7, 8},
		Map:   map[string]int{"one": 1, "two": 2, "three": 3},
		Byte:  map[uint8]string{1: "x", 2: "y"},
		Anys: map[string]any{
			"n": nil, "s": "<s>", "f": 2.0, "l": []any{1, "b", nil}, "m": map[string]any{"k": "v"}, "e": "",
		},
		Nested: &thing{Text: "nested", Map: map[string]int{}},
		Time:   time.Date(2026, 11, 28, 22, 9, 0, 0, time.UTC),
		Long:   90 * time.Second,
		Err:    errors.New("broken"),
		Call: func(s string, n ...int) (string, error) {
			if s == "fail" {
				return "", errors.New("failed")
			}
			return fmt.Sprint(s, n), nil
		},
		Seq: func(yield func(int) bool) {
			for i := 0; i < 4 && yield(i); i++ {
			}
		},
		Seq2: func(yield func(string, int) bool) {
			_ = yield("a", 1) && yield("b", 2)
		},
		Color:    3,
		Points:   map[point]string{{1, 2}: "p"},
		embedded: embedded{"inner"},
	}
}

var functions = template.FuncMap{
	"join":    strings.Join,
	"float":   func(f float64) float64 { return f },
	"small":   func(n uint8) uint8 { return n },
	"whole":   func(n int64) int64 { return n },
	"strs":    func(s ...string) int { return len(s) },
	"any":     func(v any) string { return fmt.Sprintf("%T", v) },
	"pair":    func(a any, b ...any) string { return fmt.Sprintf("%v %v", a, b) },
	"ptr":     func(t *thing) bool { return t == nil },
	"val":     func(t thing) string { return t.Text },
	"fails":   func() (string, error) { return "", errors.New("it fails") },
	"panics":  func() string { panic("it panics") },
	"divide":  func(a, b int) int { return a / b },
	"nothing": func() any { return nil },
	"err":     func() error { return nil },
	"cplx":    func(c complex128) complex128 { return c },
}

// texts are executed by both. Texts that fail have to fail in both.
var texts = []string{
	``, `plain`, `{{/* comment */}}x`, `a {{- 1 -}} b`, `{{.}}`, `{{$}}`, `{{.Text}} {{$.Text}}`,
	// constants
	`{{1}} {{-1}} {{1.5}} {{1e3}} {{0x1F}} {{0xEp1}} {{'a'}} {{'e'}} {{'\''}} {{"q\n"}}`, "{{`raw`}}", `{{true}}{{false}}`,
	`{{1i}} {{2+3i}} {{1_000}} {{0b11}} {{0o7}}`, `{{nil}}`, `{{18446744073709551615}}`, `{{9223372036854775807}}`,
	`{{1.0}} {{1e2}} {{10}}`, `{{99999999999999999999}}`, `{{whole 1e3}}`, `{{whole 'a'}}`, `{{cplx 1}}`, `{{cplx 2i}}`,
	`{{any 1}} {{any 1.0}} {{any 1i}} {{any "s"}} {{any true}} {{any 'x'}} {{any .}} {{any nil}}`, `{{any 18446744073709551615}}`,
	// fields
	`{{.Whole}}{{.Small}}{{.Float}}{{.Yes}}{{.Any}}`, `{{.Nothing}}`, `{{.List}}{{.Fixed}}{{.Map}}{{.Byte}}`, `{{.Nested.Text}}`,
	`{{.None}}`, `{{.None.Text}}`, `{{.Nested.None.Text}}`, `{{.Nope}}`, `{{.hidden}}`, `{{.Inner}}`, `{{.Gone}}`,
	`{{.Map.one}}`, `{{.Map.four}}`, `{{.Anys.n}}`, `{{.Anys.zzz}}`, `{{.Anys.m.k}}`, `{{.Anys.zzz.k}}`, `{{.Anys.n.k}}`, `{{.Anys.s.k}}`,
	`{{.Text.x}}`, `{{.Whole.x}}`, `{{.Byte.x}}`, `{{.Points.x}}`, `{{.Text 1}}`, `{{.Map.one 1}}`, `{{1 | .Text}}`, `{{1 | .Map.one}}`,
	`{{.Color}}`, `{{.Err}}`, `{{.NoErr}}`, `{{.NoErr.x}}`, `{{.Call}}`, `{{.Seq}}`, `{{.Points}}`, `{{(.Nested).Text}}`, `{{(.Nested.Map).x}}`,
	`{{(index .List 1).x}}`, `{{(1)}}`, `{{(.Text) 1}}`, `{{(nil).x}}`, `{{nothing.x}}`, `{{(nothing).x}}`,
	// methods
	`{{.Time.Format "2006"}} {{.Time.Unix}} {{.Time.Year}} {{.Time.Month}} {{.Time.UTC}}`, `{{"2006" | .Time.Format}}`, `{{.Time.Format}}`,
	`{{.Time.Format 1}}`, `{{.Time.Nope}}`, `{{.Long.Seconds}} {{.Long}} {{.Long.String}}`, `{{(.Time.Add .Long).Minute}}`, `{{.Err.Error}}`,
	`{{.Color.String}}`, `{{.NoErr.Error}}`, `{{.Time.Year 1}}`, `{{(.Time.Sub .Time).Hours}}`,
	// variables
	`{{$x := 1}}{{$x}}{{$x = 2}}{{$x}}`, `{{$x := .Nested}}{{$x.Text}}`, `{{$x := 1}}{{$x.y}}`, `{{$x := 1}}{{$x 2}}`,
	`{{$x := 1}}{{if true}}{{$x := 2}}{{$x}}{{end}}{{$x}}`, `{{$x := 1}}{{if true}}{{$x = 2}}{{end}}{{$x}}`, `{{with $x := 1}}{{$x}}{{end}}`,
	`{{$x := nil}}`, `{{$x := nothing}}{{$x}}`, `{{with $y := .Map}}{{$y.one}}{{end}}`, `{{$x := "a" | any}}{{$x}}`,
	// if and with
	`{{if .}}y{{end}}`, `{{if .None}}y{{else}}n{{end}}`, `{{if .NoErr}}y{{else}}n{{end}}`, `{{if .Nothing}}y{{else}}n{{end}}`, `{{if 0}}y{{else if 1}}z{{else}}n{{end}}`,
	`{{if ""}}y{{else}}n{{end}}{{if 0.0}}y{{else}}n{{end}}{{if 0i}}y{{else}}n{{end}}{{if .Map}}y{{end}}{{if .Nested.Map}}y{{else}}n{{end}}`,
	`{{if .Call}}y{{end}}`, `{{if .Fixed}}y{{end}}`, `{{if .Points}}y{{end}}`, `{{if .Time}}y{{end}}`, `{{if .Anys.n}}y{{else}}n{{end}}`,
	`{{with .Nested}}{{.Text}}{{else}}n{{end}}`, `{{with .None}}y{{else}}{{.Text}}{{end}}`, `{{with .None}}y{{else with .Nested}}{{.Text}}{{else}}n{{end}}`,
	`{{with .Any}}{{.}}{{end}}`, `{{if .Yes}}{{.Nope}}{{end}}`, `{{if not .Yes}}{{.Nope}}{{end}}`, `{{if nothing}}y{{else}}n{{end}}`,
	// range
	`{{range .List}}{{.}},{{end}}`, `{{range $i, $v := .List}}{{$i}}={{$v}},{{end}}`, `{{range $v := .List}}{{$v}}{{end}}`, `{{range .Fixed}}{{.}}{{end}}`,
	`{{range .Map}}{{.}},{{end}}`, `{{range $k, $v := .Map}}{{$k}}={{$v}},{{end}}`, `{{range .Byte}}{{.}}{{end}}`, `{{range $k, $v := .Anys}}{{$k}}={{$v}},{{end}}`,
	`{{range .None}}y{{else}}n{{end}}`, `{{range .Nested.List}}y{{else}}n{{end}}`, `{{range .Nested.Map}}y{{else}}n{{end}}`, `{{range 3}}{{.}}{{end}}`,
	`{{range $i := 3}}{{$i}}{{end}}`, `{{range $i, $j := 3}}{{$i}}{{end}}`, `{{range .Seq}}{{.}}{{end}}`, `{{range $i, $j := .Seq}}{{$i}}{{end}}`,
	`{{range .Seq2}}{{.}}{{end}}`, `{{range $k := .Seq2}}{{$k}}{{end}}`, `{{range $k, $v := .Seq2}}{{$k}}{{$v}}{{end}}`, `{{range .Text}}y{{end}}`, `{{range .Whole}}y{{else}}n{{end}}`,
	`{{range 1.5}}y{{end}}`, `{{range .}}y{{end}}`, `{{range .Call}}y{{end}}`, `{{range .Nothing}}y{{else}}n{{end}}`, `{{range nil}}y{{end}}`, `{{range .Small}}{{.}}{{end}}`,
	`{{range .List}}{{if eq . "b"}}{{break}}{{end}}{{.}}{{end}}`, `{{range .List}}{{if eq . "b"}}{{continue}}{{end}}{{.}}{{end}}`, `{{range 3}}{{range 3}}{{.}}{{break}}{{end}}{{end}}`,
	`{{range .Seq}}{{if eq . 2}}{{break}}{{end}}{{.}}{{end}}`, `{{$x := 0}}{{range $x = .List}}{{$x}}{{end}}{{$x}}`, `{{$i := 0}}{{$x := ""}}{{range $i, $x = .List}}{{$i}}{{$x}}{{end}}{{$x}}`,
	`{{range $i, $v := .List}}{{$w := $v}}{{with $i}}{{$w}}{{end}}{{end}}`, `{{range .List}}{{$.Text}}{{end}}`, `{{range .Anys.l}}[{{.}}]{{end}}`, `{{range .Points}}{{.}}{{end}}`,
	`{{range .List}}{{.x}}{{end}}`, `{{range $k, $v := .Points}}{{$k}}{{$v}}{{end}}`, `{{range -1}}y{{else}}n{{end}}`, `{{range $x := .List}}{{$x = "z"}}{{$x}}{{end}}`,
	// templates
	`{{define "t"}}<{{.}}>{{end}}{{template "t" .Text}}{{template "t"}}`, `{{template "none"}}`, `{{define "t"}}{{$}}{{end}}{{$x := 1}}{{template "t" $x}}`,
	`{{block "b" .Nested}}{{.Text}}{{end}}`, `{{define "t"}}{{.Nope}}{{end}}{{template "t" .}}`, `{{define "t"}}{{if .}}{{.Text}}{{template "t" .Nested}}{{end}}{{end}}{{template "t" .}}`,
	// functions
	`{{join .List "-"}}`, `{{"-" | join .List}}`, `{{.List | join}}`, `{{join .List}}`, `{{join .List 1}}`, `{{float 1}}{{float 1.5}}{{float .Float}}`, `{{float .Whole}}`, `{{float "x"}}`,
	`{{small 255}}`, `{{small -1}}`, `{{small .Small}}`, `{{small .Whole}}`, `{{whole .Whole}}`, `{{whole 1.0}}`, `{{whole 1.5}}`, `{{strs}}{{strs "a"}}{{strs "a" "b"}}`,
	`{{strs .Any}}`, `{{strs 1}}`, `{{strs nil}}`, `{{any .Any}}{{any .Nothing}}{{any .None}}`, `{{pair 1}}{{pair 1 2 "x"}}`, `{{pair}}`, `{{1 | pair 2}}`, `{{nil | pair 2}}`, `{{nothing | pair 2}}`,
	`{{ptr .}}{{ptr .None}}{{ptr nil}}`, `{{ptr .Text}}`, `{{val .}}`, `{{val .None}}`, `{{val .Nested}}`, `{{fails}}`, `{{panics}}`, `{{divide 1 0}}`, `{{divide 6 3}}`, `{{err}}`, `{{if err}}y{{else}}n{{end}}`,
	`{{nope}}`, `{{join (slice .List 1) "+"}}`, `{{any (.Nested)}}`, `{{pair . .None | len}}`, `{{any .Seq}}`, `{{true | not}}`, `{{"a" | "b"}}`, `{{1 2}}`, `{{.List 1}}`, `{{true 1}}`, `{{. 1}}`, `{{. | .Text}}`,
	`{{call .Call "a" 1 2}}`, `{{call .Call "fail"}}`, `{{call .Call}}`, `{{call .Text}}`, `{{call nil}}`, `{{call}}`, `{{call .Call 1}}`, `{{"a" | call .Call}}`, `{{call .NoErr}}`, `{{call .Nested.Call "a"}}`,
	// builtins
	`{{and}}`, `{{and 1}}{{and 1 0}}{{and 0 .Nope}}`, `{{and 1 .Nope}}`, `{{or}}`, `{{or 1 .Nope}}{{or 0 "x"}}{{or 0 ""}}`, `{{0 | or 0}}`, `{{1 | and 1}}`, `{{1 | and 0}}`, `{{or nil 1}}`, `{{and .Text .Nothing}}`,
	`{{not 1}}{{not 0}}{{not .None}}`, `{{not}}`, `{{not 1 2}}`, `{{not nil}}`, `{{not nothing}}`, `{{len .List}}{{len .Map}}{{len "ab"}}{{len .Fixed}}`, `{{len 1}}`, `{{len nil}}`, `{{len .None}}`, `{{len .Nothing}}`, `{{len .Any}}`, `{{len .Nested}}`,
	`{{index .List 0}}{{index .Map "one"}}{{index .Map "x"}}{{index .Fixed 1}}{{index "abc" 1}}{{index .Byte 1}}`, `{{index .List 3}}`, `{{index .List -1}}`, `{{index .List "a"}}`, `{{index .List nil}}`, `{{index .Map 1}}`, `{{index .Map nil}}`,
	`{{index nil}}`, `{{index nil 1}}`, `{{index .Anys "m" "k"}}`, `{{index .Anys "l" 1}}`, `{{index .Anys "zz" 1}}`, `{{index .List}}`, `{{index .Whole 1}}`, `{{index .None 1}}`, `{{index .List 1.0}}`, `{{index}}`, `{{1 | index .List}}`, `{{index .List .Small}}`,
	`{{index .Points .}}`, `{{index .Byte 300}}`, `{{index .Anys .Any}}`, `{{index .List 18446744073709551615}}`,
	`{{slice .List}}{{slice .List 1}}{{slice .List 1 2}}{{slice .List 1 2 3}}{{slice "abcd" 1 3}}`, `{{slice .List 4}}`, `{{slice .List 2 1}}`, `{{slice "abc" 1 2 3}}`, `{{slice .List 1 2 3 4}}`, `{{slice .Whole 1}}`, `{{slice nil}}`, `{{slice .Fixed 1}}`, `{{slice .Map}}`, `{{slice .Any 1}}`, `{{slice .List 1 3 2}}`, `{{slice .None}}`, `{{slice "abc" 4}}`,
	`{{print 1 2 "a" "b"}}{{printf "%d-%s-%v" 1 "x" .List}}{{println "x"}}`, `{{html "<a>'\"&"}}{{js "it's"}}{{urlquery "a b&c"}}`, `{{html .Anys.s .Whole}}`, `{{.Anys.s | html}}`, `{{printf}}`, `{{printf 1}}`, `{{print nil}}`, `{{print .None}}`, `{{urlquery nil}}`,
	`{{html .Nested.None}}`, `{{printf "%T" .Any}}`, `{{print .Color}}`, `{{html .Color}}`,
	`{{eq 1 1}}{{eq 1 2}}{{eq 1 2 1}}{{eq "a" "a"}}{{eq 1.5 1.5}}{{eq true true}}{{eq .Small 200}}{{eq .Whole -3}}{{eq 1i 1i}}`, `{{eq 1 "a"}}`, `{{eq 1 1.0}}`, `{{eq 1}}`, `{{eq}}`, `{{eq .List .List}}`, `{{eq .None nil}}`, `{{eq nil nil}}`, `{{eq .Nothing nil}}`, `{{eq .Map nil}}`,
	`{{eq .Any "any"}}`, `{{eq . .}}`, `{{eq .Nested .None}}`, `{{eq .Err .Err}}`, `{{eq .Call .Call}}`, `{{eq .Call nil}}`, `{{eq .NoErr nil}}`, `{{eq .Time .Time}}`, `{{eq .Fixed .Fixed}}`, `{{eq .Anys.n .Nothing}}`, `{{eq "a" nil}}`, `{{eq nil "a"}}`, `{{eq .Anys.zzz ""}}`, `{{eq .Fixed .List}}`, `{{eq . .Nested}}`, `{{eq .Nested.Call nil}}`, `{{eq .Points .Points}}`, `{{eq .Color 3}}`, `{{eq .None .None}}`, `{{eq .None .Nested.Map}}`, `{{eq .Nested .Map}}`, `{{eq .Time .Fixed}}`, `{{eq .Nested.Map nil}}`, `{{eq .Anys.l .Anys.m}}`, `{{eq .Anys.l nil}}`,
	`{{ne 1 2}}{{ne "a" "a"}}`, `{{ne 1 "a"}}`, `{{ne 1}}`, `{{ne 1 2 3}}`, `{{ne .None nil}}`,
	`{{lt 1 2}}{{lt 2 1}}{{lt "a" "b"}}{{lt 1.5 2.5}}{{lt .Whole .Small}}{{lt .Small .Whole}}{{lt -2 -1}}{{lt .Small 201}}`, `{{lt 1 "a"}}`, `{{lt 1 1.5}}`, `{{lt true false}}`, `{{lt nil 1}}`, `{{lt 1 nil}}`, `{{lt .List .List}}`, `{{lt 1i 2i}}`, `{{lt .Any "b"}}`, `{{lt . .}}`,
	`{{le 1 1}}{{le 2 1}}{{le .Small .Small}}{{le "b" "a"}}{{le 1.5 1.5}}`, `{{gt 2 1}}{{gt 1 1}}{{gt .Whole .Small}}`, `{{ge 1 1}}{{ge 1 2}}{{ge .Small 0}}`, `{{le 1 "a"}}{{gt 1 "a"}}`, `{{ge nil nil}}`, `{{gt true false}}`, `{{le .List 1}}`, `{{lt 1}}`,
	// errors of the text itself
	`{{`, `{{if}}`, `{{end}}`, `{{break}}`, `{{$x}}`, `{{template}}`, `{{range .List}}`, `{{define "t"}}`, `{{.Text | }}`, `{{1 | nil}}`,
}

// options are the three ways to treat a key that a map does not have.
var options = map[string]gotext.Config{
	"missingkey=default": {},
	"missingkey=zero":    {ZeroMissing: true},
	"missingkey=error":   {FailMissing: true},
}

// compare executes a text by both packages, and returns the difference, or "".
func compare(text, option string, data any) string {
	var want, got strings.Builder
	t, wantErr := template.New("text").Funcs(functions).Option(option).Parse(text)
	if wantErr == nil {
		wantErr = t.Execute(&want, data)
	}

	config := options[option]
	config.Functions = functions
	set, gotErr := gotext.Parse("text", text, config)
	if gotErr == nil {
		gotErr = set.Execute(&got, "text", data)
	}

	switch {
	case (wantErr == nil) != (gotErr == nil):
		return fmt.Sprintf("%s, %s: got the error %v, want %v", text, option, gotErr, wantErr)
	case want.String() != got.String():
		return fmt.Sprintf("%s, %s: got %q, want %q", text, option, got.String(), want.String())
	}
	return ""
}

// Each text has the output of package text/template, also up to an error.
func TestExecute_AsTextTemplate(t *testing.T) {
	for _, text := range texts {
		for option := range options {
			for _, data := range []any{newThing(), *newThing(), nil, map[string]any{"Text": "t", "List": []any{}}} {
				fault := compare(text, option, data)
				if fault != "" {
					t.Errorf("%T: %s", data, fault)
				}
			}
		}
	}
}

// Texts that a fuzzer makes of those of the test have the output of package text/template.
func FuzzExecute_AsTextTemplate(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// Long loops and recursion take their time in both.
		if len(text) > 200 || strings.Contains(text, "template") && strings.Contains(text, "define") {
			return
		}
		// This package rejects a number that overflows its type.
		if strings.Contains(text, "small") {
			return
		}
		if strings.Count(text, "range") > 1 || strings.ContainsAny(text, "%") || hasNumber(text) {
			return
		}
		for option := range maps.Keys(options) {
			fault := compare(text, option, newThing())
			if fault != "" {
				t.Error(fault)
			}
		}
	})
}

// hasNumber reports whether a text has a number that is too large for a range.
func hasNumber(text string) bool {
	digits := 0
	for _, c := range text {
		if '0' <= c && c <= '9' || c == '_' {
			digits++
		} else {
			digits = 0
		}
		if digits > 4 || c == 'e' && digits > 0 {
			return true
		}
	}
	return false
}

const benchText = `{{range $i, $v := .List}}{{if eq $v "b"}}{{printf "%d=%s" $i $v}}{{else}}{{.}}{{end}}{{end}}{{.Nested.Text}}`

// BenchmarkTextTemplate is BenchmarkExecute by package text/template.
func BenchmarkTextTemplate(b *testing.B) {
	t := template.Must(template.New("text").Parse(benchText))
	data := newThing()
	for b.Loop() {
		err := t.Execute(io.Discard, data)
		if err != nil {
			b.Fatal(err)
		}
	}
}
