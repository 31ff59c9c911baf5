package fencing

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"

	"berth/structs"
)

// The bounds of the output of an agent, in bytes.
const (
	maxOutput = 4 << 10  // its end, which is kept
	maxLine   = 64 << 10 // of one line
)

// The lines in place of others.
const (
	secretLine = "[a line with a secret]"
	longLine   = "[a line that is too long]"
)

// output keeps the end of the output of an agent, without the lines that hold a secret. It looks at whole
// lines: a cut could leave a part of a secret.
type output struct {
	secrets []string

	mu   sync.Mutex // an agent that does not die may write after its run
	line []byte     // without its end so far
	long bool       // the line has more than maxLine bytes, and its end is not kept
	kept []byte
}

// Write implements io.Writer. It takes everything.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for part := range bytes.Lines(p) {
		text, ended := bytes.CutSuffix(part, []byte("\n"))

		// The rest of a long line is dropped, and so is its begin: a secret may lie across the bound.
		o.long = o.long || len(o.line)+len(text) > maxLine
		if !o.long {
			o.line = append(o.line, text...)
		}

		if ended {
			o.endLine(holdsAny(string(o.line), o.secrets))
		}
	}

	return len(p), nil
}

// endLine keeps the line, or the line in its place, and begins another.
func (o *output) endLine(hasSecret bool) {
	text := structs.Printable(strings.TrimSuffix(string(o.line), "\r"))
	switch {
	case o.long:
		text = longLine
	case hasSecret:
		text = secretLine
	}

	o.kept = append(append(o.kept, text...), '\n')
	o.cut()
	o.line = o.line[:0]
	o.long = false
}

// cut removes all but the last maxOutput bytes.
func (o *output) cut() {
	from := max(len(o.kept)-maxOutput, 0)
	for from > 0 && from < len(o.kept) && !utf8.RuneStart(o.kept[from]) {
		from++
	}
	o.kept = append(o.kept[:0], o.kept[from:]...)
}

// String returns the end of the output so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.line) > 0 || o.long {
		line := string(o.line)
		o.endLine(holdsAny(line, o.secrets) || endsWithin(line, o.secrets))
	}
	return string(o.kept)
}

// holdsAny reports whether a line holds a secret.
func holdsAny(line string, secrets []string) bool {
	for _, secret := range secrets {
		if strings.Contains(line, secret) {
			return true
		}
	}
	return false
}

// endsWithin reports whether a line may end in the middle of a secret: its agent was killed.
func endsWithin(line string, secrets []string) bool {
	for _, secret := range secrets {
		for n := range len(secret) {
			if n > 0 && strings.HasSuffix(line, secret[:n]) {
				return true
			}
		}
	}
	return false
}
