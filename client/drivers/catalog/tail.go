package catalog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// tailInterval is the time between two looks at a file that had nothing new.
	tailInterval = 100 * time.Millisecond
	// maxTail is the size at which a file that is read to its end is emptied.
	maxTail = 1 << 20
	// maxDiagnosis bounds the text of a failed start.
	maxDiagnosis = 4 << 10
	// maxWords bounds the part of it that explains the end of a process: a driver has 512 bytes to describe
	// its state.
	maxWords = 360
	// maxLine bounds a line of a log. A longer one is logged in parts.
	maxLine = 16 << 10
	// maxOutputLine bounds a line of the standard output, whose first one is the handshake.
	maxOutputLine = 1 << 10
)

// tail reads a file that a process appends to. It returns io.EOF when the process has ended and all is read.
type tail struct {
	file   *os.File // the process appends to it
	ended  <-chan struct{}
	closed chan struct{}
	close  sync.Once
	at     int64
}

// newTail makes an empty file.
func newTail(path string, ended <-chan struct{}) (*tail, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &tail{
		file:   file,
		ended:  ended,
		closed: make(chan struct{}),
	}, nil
}

// openTail reads a file from its present end.
func openTail(path string, ended <-chan struct{}) (*tail, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &tail{
		file:   file,
		ended:  ended,
		closed: make(chan struct{}),
		at:     info.Size(),
	}, nil
}

// Read implements io.Reader.
func (t *tail) Read(p []byte) (int, error) {
	for {
		last := isClosed(t.ended) // asked before the read, so that nothing is written after it
		n, err := t.file.ReadAt(p, t.at)
		t.at += int64(n)
		if n > 0 {
			return n, nil
		}

		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}

		if last || isClosed(t.closed) {
			return 0, io.EOF
		}

		t.empty()
		select {
		case <-t.ended:
		case <-t.closed:
		case <-time.After(tailInterval):
		}
	}
}

// empty cuts a large file that is read. A line that is written at the same moment may be lost.
func (t *tail) empty() {
	if t.at < maxTail {
		return
	}

	// The process writes with O_APPEND, so its next line goes to the new end.
	err := t.file.Truncate(0)
	if err == nil {
		t.at = 0
	}
}

// last returns the end of the text that was written.
func (t *tail) last() string {
	info, err := t.file.Stat()
	if err != nil {
		return ""
	}
	from := max(0, info.Size()-maxDiagnosis)
	text, _ := io.ReadAll(io.NewSectionReader(t.file, from, maxDiagnosis))
	return strings.ToValidUTF8(strings.TrimSpace(string(text)), "�")
}

// lastWords returns the part of a text that says best why its process has ended: the end, in whole lines. The
// stack that a Go program prints after its last words is cut at its end instead.
func lastWords(text string) string {
	for _, mark := range []string{"panic: ", "fatal error: "} {
		if at := strings.LastIndex("\n"+text, "\n"+mark); at >= 0 {
			return text[at:min(len(text), at+maxWords)]
		}
	}
	if len(text) <= maxWords {
		return text
	}
	end := text[len(text)-maxWords:]
	_, whole, more := strings.Cut(end, "\n")
	if !more {
		whole = end
	}
	return whole
}

// Close implements io.Closer.
func (t *tail) Close() error {
	t.close.Do(func() { close(t.closed) })
	return nil
}

// lines reads a tail and ends lines that are too long. The library would read no further after one of 64 KiB.
type lines struct {
	*tail
	length int // bytes of the present line
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	if l.length == maxOutputLine {
		l.length = 0
		return copy(p, "\n"), nil
	}
	n, err := l.tail.Read(p[:min(len(p), maxOutputLine-l.length)])
	l.length += n
	if end := bytes.LastIndexByte(p[:n], '\n'); end >= 0 {
		l.length = n - end - 1
	}
	return n, err
}

// logTo logs each line until the end.
func (t *tail) logTo(logger hclog.Logger) {
	r := bufio.NewReaderSize(t, maxLine)
	for {
		line, _, err := r.ReadLine()
		if err != nil {
			return
		}
		logLine(logger, line)
	}
}

// logLine logs a line. Plugins write their log in JSON, with a level. Any other line is for debugging.
func logLine(logger hclog.Logger, line []byte) {
	entry := map[string]any{}
	err := json.Unmarshal(line, &entry)
	message, written := entry["@message"].(string)
	if err != nil || !written {
		logger.Debug(strings.ToValidUTF8(string(line), "�"))
		return
	}

	name, _ := entry["@level"].(string)
	level := hclog.LevelFromString(name)
	if level == hclog.NoLevel {
		level = hclog.Debug
	}

	var args []any
	for _, key := range slices.Sorted(maps.Keys(entry)) {
		if !strings.HasPrefix(key, "@") {
			args = append(args, key, entry[key])
		}
	}

	logger.Log(level, message, args...)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
