package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// TestScenes_AreCommandsOfReadme: the picture shows what its reader will run.
func TestScenes_AreCommandsOfReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("../../docs/images/tour.svg")
	if err != nil {
		t.Fatal(err)
	}
	_, minutes, _ := strings.Cut(string(readme), "\n## Five minutes\n")
	minutes, _, _ = strings.Cut(minutes, "\n## ")
	shown := textsOf(t, picture)
	for _, s := range scenes {
		command := strings.NewReplacer("{data}", "DATA", "{alloc}", "ALLOC").Replace(s.command)
		if !strings.Contains(minutes, "    "+command) {
			t.Errorf("README's five minutes have no command %q", command)
		}
		words, _, _ := strings.Cut(s.command, "{")
		if !strings.Contains(shown, "$ "+words) || !strings.Contains(shown, s.say) {
			t.Errorf("the picture has no scene %q: run make picture", s.command)
		}
	}
}

func TestDraw_EscapesAndCuts(t *testing.T) {
	long := strings.Repeat("x", columns+1)
	shots := []shot{
		{"one", "a <b> & c", []string{`"quoted"`, long}},
		{"two", "d", nil},
	}
	got := textsOf(t, draw(shots))
	want := "one\n$ a <b> & c\n\"quoted\"\n" + long[:columns-1] + "…\ntwo\n$ d\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDraw_KeepsToItsRows(t *testing.T) {
	tall := make([]string, 2*rows)
	for i := range tall {
		tall[i] = "."
	}
	got := strings.Count(textsOf(t, draw([]shot{{"one", "a", tall}})), ".\n")
	if got != rows-2 {
		t.Errorf("got %d lines of output, want %d", got, rows-2)
	}
}

// textsOf returns the texts of an image, and fails if it is no XML.
func textsOf(t *testing.T, picture []byte) string {
	t.Helper()
	var out strings.Builder
	in := false
	d := xml.NewDecoder(strings.NewReader(string(picture)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		switch v := token.(type) {
		case xml.StartElement:
			in = v.Name.Local == "text"
		case xml.EndElement:
			in = false
		case xml.CharData:
			if in {
				out.Write(v)
				out.WriteByte('\n')
			}
		}
	}
}
