package conf

import (
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Positions has the positions of settings in files, by their paths: a setting of a block has the name of the
// block before it, as `client.meta`. A block with a label is there without and with it, as `client.device`
// and `client.device "a/b/c"`. The zero value has none.
type Positions map[string]hcl.Range

// record adds the position of an argument or a block.
func (p Positions) record(path string, it *item) {
	if p == nil {
		return
	}
	p[path] = it.at
	for _, label := range it.labels {
		p[path+" "+strconv.Quote(label)] = it.at
	}
}

// Locate adds a position to each line of an invalid error that begins with the path of a setting. The place
// is the setting, or else the innermost block in its path. Locate changes no other errors.
func (p Positions) Locate(err error) error {
	return Place(err, p.find)
}

// find returns the position of the longest path with which a line begins, nil for none. Every fault counts.
func (p Positions) find(line string) (position *hcl.Range, counts bool) {
	longest := ""
	for path := range p {
		// Of the paths that a line begins with, a longer one is a more exact place.
		if len(path) > len(longest) && beginsWith(line, path) {
			longest = path
		}
	}
	at, found := p[longest]
	if !found {
		return nil, true
	}
	return &at, true
}

// beginsWith reports whether a line begins with a path, and not with a longer name.
func beginsWith(line, path string) bool {
	rest, ok := strings.CutPrefix(line, path)
	if !ok || rest == "" {
		return ok
	}

	// A letter, a digit or an underscore belongs to a longer name.
	c := rest[0]
	return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
}
