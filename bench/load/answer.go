package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"berth/structs"
)

// answer has the parts of an HTTP response that a load needs. Its body is read and dropped.
type answer struct {
	status int
	after  time.Duration // the retry time; 0: none
	last   bool          // the server answers nothing more on this connection
}

// err returns the error of an answer, with its kind and its retry time; nil is a success.
func (a answer) err() error {
	switch {
	case a.status == http.StatusOK:
		return nil
	case a.status == http.StatusServiceUnavailable:
		return structs.Busy(a.after, "answered 503")
	}
	return fmt.Errorf("answered %d", a.status)
}

// The maximum of each in an answer. A line fits into the reader's buffer.
const (
	mostInterim = 4   // answers that are none yet (1xx)
	mostFields  = 100 // lines of a head, or of a trailer
	mostBody    = 1 << 30
)

var (
	errHead   = errors.New("the bytes are no answer of HTTP/1.1")
	errField  = errors.New("a field of the answer's head is broken")
	errLength = errors.New("the answer has no length, or two")
	errChunk  = errors.New("a chunk of the answer is broken")
	errLong   = errors.New("the answer is too long")
)

// answerReader reads answers to GET and PUT from one connection, one after the other. It is strict: every
// reader of HTTP/1.1 understands the accepted answers in the same way, and after a rejected one the
// connection is unusable. It allocates only for a retry time with a fraction of a second, and for an error.
type answerReader struct {
	*bufio.Reader
	head
}

func newAnswerReader(from io.Reader) *answerReader {
	return &answerReader{Reader: bufio.NewReaderSize(from, 4<<10)}
}

// next reads one answer to its end. No bytes at all are io.EOF.
func (r *answerReader) next() (answer, error) {
	if _, err := r.Peek(1); err != nil {
		return answer{}, err
	}
	for range mostInterim {
		if err := r.readHead(); err != nil {
			return answer{}, err
		}
		if r.status >= http.StatusOK {
			return r.answer, r.skip(r.Reader)
		}
	}
	return answer{}, errLong
}

// head is the part of an answer before the body.
type head struct {
	answer
	exact   time.Duration // after, to the fraction of a second
	length  int           // of the body; -1: not given
	chunked bool
}

func (r *answerReader) readHead() error {
	r.head = head{length: -1}
	line, err := readLine(r.Reader)
	if err == nil {
		r.status, err = statusOf(line)
	}
	if err == nil {
		err = readFields(r.Reader, r.field)
	}
	if r.exact > 0 {
		r.after = r.exact
	}
	return err
}

func (r *answerReader) field(name, value []byte) error {
	if set := headFields[string(name)]; set != nil {
		return set(&r.head, value)
	}
	return nil
}

// statusOf reads "HTTP/1.1 200 OK".
func statusOf(line []byte) (int, error) {
	const version, end = "HTTP/1.1 ", len("HTTP/1.1 200")
	if len(line) <= end ||
		string(line[:len(version)]) != version || line[end] != ' ' {
		return 0, errHead
	}
	status := 0
	for _, c := range line[len(version):end] {
		if c < '0' || c > '9' {
			return 0, errHead
		}
		status = 10*status + int(c-'0')
	}
	if status < 100 || status == http.StatusSwitchingProtocols {
		return 0, errHead
	}
	return status, nil
}

// headFields are the fields that matter.
var headFields = map[string]func(h *head, value []byte) error{
	"content-length": func(h *head, value []byte) error {
		n, ok := number(value, 10)
		if !ok || h.length >= 0 {
			return errLength
		}
		h.length = n
		return nil
	},
	"transfer-encoding": func(h *head, value []byte) error {
		if h.chunked || !bytes.EqualFold(value, []byte("chunked")) {
			return errLength
		}
		h.chunked = true
		return nil
	},
	"connection": func(h *head, value []byte) error {
		for option := range bytes.SplitSeq(value, []byte(",")) {
			h.last = h.last ||
				bytes.EqualFold(bytes.Trim(option, " \t"), []byte("close"))
		}
		return nil
	},
	"retry-after": func(h *head, value []byte) error { // a date is ignored here
		if seconds, ok := number(value, 10); ok && seconds <= 1<<16 {
			h.after = time.Duration(seconds) * time.Second
		}
		return nil
	},
	"x-berth-retry-after": func(h *head, value []byte) error {
		if exact, err := time.ParseDuration(string(value)); err == nil {
			h.exact = exact
		}
		return nil
	},
}

// skip reads the body.
func (h *head) skip(in *bufio.Reader) error {
	switch {
	case h.chunked && h.length >= 0:
		return errLength
	case h.status == http.StatusNoContent || h.status == http.StatusNotModified:
		return nil
	case h.chunked:
		return skipChunks(in)
	case h.length >= 0:
		return discard(in, h.length)
	case h.last: // it ends where the connection does
		n, err := io.Copy(io.Discard, io.LimitReader(in, mostBody+1))
		if n > mostBody {
			return errLong
		}
		return err
	}
	return errLength
}

// skipChunks reads a chunked body, each chunk after its size, up to an empty one and the trailers.
func skipChunks(in *bufio.Reader) error {
	for total := 0; ; {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte(";")) // extensions mean nothing here
		n, ok := number(bytes.TrimRight(size, " \t"), 16)
		if !ok {
			return errChunk
		}
		if n == 0 {
			return readFields(in, func([]byte, []byte) error { return nil })
		}
		total += n
		if total > mostBody {
			return errLong
		}
		if err := discard(in, n); err != nil {
			return err
		}
		line, err = readLine(in)
		if err != nil {
			return err
		}
		if len(line) > 0 {
			return errChunk
		}
	}
}

// readFields reads "Name: value" up to an empty line. Names come in small letters; neither is kept.
func readFields(in *bufio.Reader, field func(name, value []byte) error) error {
	for range mostFields {
		line, err := readLine(in)
		if err != nil || len(line) == 0 {
			return err
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !lower(name) || !text(value) {
			return errField
		}
		if err := field(name, bytes.Trim(value, " \t")); err != nil {
			return err
		}
	}
	return errLong
}

// lower makes a field's name one of small letters, in its place; false when it is no name.
func lower(name []byte) bool {
	for i, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c == '-', c >= '0' && c <= '9':
		case c >= 'A' && c <= 'Z':
			name[i] = c + 'a' - 'A'
		case bytes.IndexByte([]byte("!#$%&'*+.^_`|~"), c) < 0:
			return false
		}
	}
	return len(name) > 0
}

// text is false when there are bytes in a field's value that have no place there.
func text(value []byte) bool {
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// readLine is a line without its end, as long as nothing more is read.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errLong
	case err != nil:
		return nil, early(err)
	case len(line) < 2 || line[len(line)-2] != '\r':
		return nil, errHead
	}
	return line[:len(line)-2], nil
}

func discard(in *bufio.Reader, n int) error {
	if n > mostBody {
		return errLong
	}
	_, err := in.Discard(n)
	return early(err)
}

// early is the error of an end where none was expected.
func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// number reads digits and nothing else; more than a body may have is none.
func number(digits []byte, base int) (int, bool) {
	n, err := strconv.ParseUint(string(digits), base, 31)
	return int(n), err == nil
}
