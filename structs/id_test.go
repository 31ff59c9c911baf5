package structs

import (
	"regexp"
	"testing"
)

func TestNewID_IsAUUIDOfItsOwn(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("got %q", id)
		}
		seen[id] = true
	}
}

func TestShellWord_IsOneWordOfAShell(t *testing.T) {
	for word, want := range map[string]string{
		"":            `''`,
		"web":         `web`,
		"web/child-1": `web/child-1`,
		"vol[0]":      `'vol[0]'`,
		"a;id":        `'a;id'`,
		"a'$IFS":      `'a'\''$IFS'`,
		"a b":         `'a b'`,
	} {
		if got := ShellWord(word); got != want {
			t.Errorf("ShellWord(%q) = %s, want %s", word, got, want)
		}
	}
}
