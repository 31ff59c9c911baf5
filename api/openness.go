package api

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"berth/internal/files"
)

// The words of the file of an openness.
const (
	wordOpen   = "open"
	wordTokens = "tokens"
)

// openness says whether the last answer of the servers about a right was that access control is off. A file
// keeps it over a restart of the agent: without it, an agent that reaches no server would let every request
// pass.
type openness struct {
	atomic.Bool
	// confirmed: since the start of the agent, the leader has answered that access control is off.
	confirmed atomic.Bool

	path   string // "": no file
	logger hclog.Logger
	mu     sync.Mutex
	kept   string // the word in the file
	failed bool   // the last write has failed
}

// load reads the last answer. first is what counts before the first one. A file that is not readable, or has
// another word, denies.
func (o *openness) load(path string, first bool, logger hclog.Logger) {
	o.path = path
	o.logger = logger
	if path == "" {
		o.Store(first)
		return
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		o.Store(first)
		return
	}
	o.kept = strings.TrimSpace(string(text))
	o.Store(o.kept == wordOpen)
}

// note keeps an answer of the servers.
func (o *openness) note(open bool) {
	o.Store(open)
	o.confirmed.Store(open)
	if o.path == "" {
		return
	}
	word := wordTokens
	if open {
		word = wordOpen
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	if word == o.kept {
		return
	}
	err := files.WriteDurable(o.path, []byte(word+"\n"))
	if err != nil && !open {
		// An empty file denies, too, and needs no space. The former word would let every request pass.
		err = errors.Join(err, os.WriteFile(o.path, nil, 0o600))
	}
	if err != nil && !o.failed { // each answer is a further attempt
		o.logger.Error("failed to keep whether requests need tokens", "file", o.path, "error", err)
	}
	o.failed = err != nil
	if err == nil {
		o.kept = word
	}
}
