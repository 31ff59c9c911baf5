package structs

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// NewID returns a random UUID. It must not be called while a log entry is applied: see DeriveID.
func NewID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	text := []byte("........-....-....-....-............")
	hex.Encode(text, id[:4])
	hex.Encode(text[9:], id[4:6])
	hex.Encode(text[14:], id[6:8])
	hex.Encode(text[19:], id[8:10])
	hex.Encode(text[24:], id[10:])
	return string(text)
}

// DeriveID makes an ID in the form of a UUID from its parts, the same on every server. It serves rows that a
// log entry creates: the parts are the index of the entry and the names of the cause.
func DeriveID(index uint64, parts ...string) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s", index, strings.Join(parts, "\x00")))
	return fmt.Sprintf("%x-%x-%x-%x-%x",
		h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

// ShellWord returns a word as a shell reads it: in quotes if that is necessary.
func ShellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// CommandLine returns a command on an object of a namespace, which it names if it is not the default one.
func CommandLine(namespace, verb string, args ...string) string {
	if NamespaceOr(namespace) != DefaultNamespace {
		verb += " -namespace " + ShellWord(namespace)
	}
	for _, arg := range args {
		verb += " " + ShellWord(arg)
	}
	return "berth " + verb
}

// ShortID is the first block of a UUID, as tables show it.
func ShortID(id string) string {
	return id[:min(len(id), 8)]
}
