package shelf

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// limit returns the number of volumes that this node takes, 0 for any number.
func (s *shelf) limit() int64 {
	text, err := os.ReadFile(s.path("limit", s.node))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// stagedHere returns the number of volumes that are staged on this node.
func (s *shelf) stagedHere() int64 {
	found, _ := filepath.Glob(s.path("vol", "*", "staged", s.node))
	return int64(len(found))
}
