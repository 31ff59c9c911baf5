package alloc

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"berth/cli/command"
	"berth/structs"
	"berth/structs/nodecalls"
)

// enterRawMode makes the terminal pass every key on. The caller has to call restore.
func enterRawMode(f *os.File) (restore func(), err error) {
	state, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, structs.Preconditionf("changing the mode of the terminal: %w", err)
	}
	return func() { _ = term.Restore(int(f.Fd()), state) }, nil
}

// rawLines writes lines of this program to a terminal that enterRawMode has changed: it does not return to
// the first column by itself. Each Write must have complete lines.
type rawLines struct{ to io.Writer }

func (w rawLines) Write(p []byte) (int, error) {
	_, err := io.WriteString(w.to, strings.ReplaceAll(structs.Printable(string(p)), "\n", "\r\n"))
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// followSize sends the size of the terminal, and again after each change, until stop is called.
func followSize(f *os.File) (sizes <-chan nodecalls.TerminalSize, stop func()) {
	out := make(chan nodecalls.TerminalSize)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	done := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() {
		for {
			width, height, err := term.GetSize(int(f.Fd()))
			if err == nil {
				select {
				case out <- nodecalls.TerminalSize{Height: height, Width: width}:
				case <-done:
					return
				}
			}

			select {
			case <-changed:
			case <-done:
				return
			}
		}
	})

	return out, func() {
		signal.Stop(changed)
		close(done)
		following.Wait()
	}
}

// errEscaped is the end of a command by the escape character.
var errEscaped = errors.New("the command was ended by the escape character")

// noEscape is the character of a user that wants no escapes.
const noEscape = 0

// escapeCharacter reads the option -e.
func escapeCharacter(text string) (byte, error) {
	switch {
	case text == "none":
		return noEscape, nil
	case len(text) == 1 && text[0] > ' ' && text[0] < 0x7f && text != ".":
		return text[0], nil
	}
	return 0, command.BadUsage("the option -e is %q, expected one ASCII character that is no dot, or none",
		text)
}

// escapeReader passes input on until a line begins with the escape character and a dot. Of two escape
// characters at the start of a line it passes one on.
type escapeReader struct {
	from   io.Reader
	escape byte
	end    func() // called for an escape
	start  bool   // the next character is at the start of a line
	held   bool   // the escape character was read, and waits for the next one
}

func newEscapeReader(from io.Reader, escape byte, end func()) *escapeReader {
	return &escapeReader{from: from, escape: escape, end: end, start: true}
}

func (r *escapeReader) Read(p []byte) (int, error) {
	if r.escape == noEscape || len(p) < 2 {
		return r.from.Read(p)
	}

	buf := make([]byte, len(p)-1) // one character may be held
	for {
		n, err := r.from.Read(buf)
		out, ended := r.pass(p[:0], buf[:n])
		if ended {
			r.end()
			return len(out), io.EOF
		}

		if err != nil && r.held {
			r.held = false
			out = append(out, r.escape)
		}

		if len(out) > 0 || err != nil {
			return len(out), err
		}
	}
}

// pass appends the characters to pass on. It reports whether they end the input.
func (r *escapeReader) pass(out, in []byte) ([]byte, bool) {
	for _, b := range in {
		switch {
		case r.held && b == '.':
			return out, true
		case r.held:
			r.held = false
			if b != r.escape {
				out = append(out, r.escape)
			}

		case r.start && b == r.escape:
			r.held = true
			r.start = false
			continue
		}

		out = append(out, b)
		r.start = b == '\r' || b == '\n'
	}

	return out, false
}
