package conf

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"

	"berth/structs"
)

// shownColumns bounds the characters of a line of a file that Write shows.
const shownColumns = 100

// Write writes diagnostics for a person, by hcl's own writer: the message, the file with the line, and the
// text of the line, with a caret below the place. sources has the text of the files.
func Write(w io.Writer, sources map[string][]byte, diags hcl.Diagnostics) error {
	for i, d := range diags {
		// All faults are counted, but a terminal has a bounded number of lines.
		if i == structs.MaxFaults && len(diags) > structs.MaxFaults+1 {
			_, err := fmt.Fprintf(w, "and %d more\n\n", len(diags)-i)
			return err
		}
		_, err := io.WriteString(w, shown(d, sources))
		if err != nil {
			return err
		}
	}
	return nil
}

// shown returns the text of a diagnostic, with an empty line after it. It leaves out the values of variables,
// which may be secret.
func shown(d *hcl.Diagnostic, sources map[string][]byte) string {
	head := &hcl.Diagnostic{
		Severity: d.Severity,
		Summary:  structs.Cut(d.Summary, maxLine),
	}
	line := sourceLine{}
	files := map[string]*hcl.File{}
	if d.Subject != nil {
		src, found := sources[d.Subject.Filename]
		if found {
			// The text of the line may differ from the file, so the writer gets a file of this line alone.
			line = lineAt(src, d.Subject.Start)
			head.Subject, files = line.file(d.Subject)
		} else { // it is a value that is in no file
			head.Summary = d.Subject.Filename + ": " + head.Summary
		}
	}

	var out strings.Builder
	_ = hcl.NewDiagnosticTextWriter(&out, files, 0, false).WriteDiagnostic(head) // a builder has no errors
	text := strings.TrimRight(out.String(), "\n")
	if head.Subject != nil {
		text += "\n" + line.caret(text[strings.LastIndexByte(text, '\n')+1:])
	}

	if d.Detail != "" {
		text += "\n\n" + structs.Cut(d.Detail, maxLine)
	}

	return text + "\n\n"
}

// sourceLine is a line of a file as it is shown.
type sourceLine struct {
	text   string
	before int // characters before the place
}

// lineAt returns the line of a place. Control characters become spaces, because a terminal would execute some
// of them, and of a long line only the part around the place is left.
func lineAt(src []byte, at hcl.Pos) sourceLine {
	// The place may be after the end, for an argument that is missing.
	place := min(max(at.Byte, 0), len(src))
	start := bytes.LastIndexByte(src[:place], '\n') + 1
	end := len(src)
	if n := bytes.IndexByte(src[place:], '\n'); n >= 0 {
		end = place + n
	}

	before := plainRunes(src[start:place])
	after := plainRunes(src[place:end])
	// Half of the columns are before the place, so the place is in the part that is shown.
	if len(before)+len(after) > shownColumns {
		before = before[max(0, len(before)-shownColumns/2):]
		after = after[:min(len(after), shownColumns-len(before))]
	}

	text := strings.TrimRight(string(before)+string(after), " ")
	if text == "" {
		text = " " // the writer shows no empty line
	}

	return sourceLine{
		text:   text,
		before: len(before),
	}
}

// plainRunes returns the characters of a part of a line.
func plainRunes(part []byte) []rune {
	runes := []rune(string(part))
	for i, r := range runes {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			runes[i] = ' '
		}
	}
	return runes
}

// file returns a file with the line at its number, and the range of the line in it: the writer shows the
// bytes of a file unchanged.
func (l sourceLine) file(at *hcl.Range) (*hcl.Range, map[string]*hcl.File) {
	// The writer counts lines by itself, so the line gets the lines above it.
	above := strings.Repeat("\n", max(at.Start.Line-1, 0))
	whole := &hcl.Range{
		Filename: at.Filename,
		Start:    hcl.Pos{Line: at.Start.Line, Column: 1, Byte: len(above)},
		End:      hcl.Pos{Line: at.Start.Line, Column: 1 + len(l.text), Byte: len(above) + len(l.text)},
	}
	return whole, map[string]*hcl.File{
		at.Filename: {Bytes: []byte(above + l.text)},
	}
}

// caret returns the line below the one that the writer has written, which has a number before its text.
func (l sourceLine) caret(written string) string {
	number := strings.TrimSuffix(written, l.text)
	return strings.Repeat(" ", len(number)+l.before) + "^"
}
