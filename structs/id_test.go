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
