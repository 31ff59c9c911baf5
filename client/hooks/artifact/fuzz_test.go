package artifact

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"berth/client/hooks/artifact/download"
)

// FuzzReply reads the reply of a process that has become hostile. A result is a bounded text, and a download
// counts as complete only after a reply that is whole.
func FuzzReply(f *testing.F) {
	for _, reply := range []string{
		"{}", `{"Error":""}`, `{"Error":"no such host"}`, `{"Error":"a","Error":""}`, `{"Error":1}`, "null", "[]", "",
		`{"Error":"` + strings.Repeat("ä", maxReply) + `"}`, strings.Repeat(" ", maxReply) + "{}", `{"Error":"\xff\u0000"`,
		strings.Repeat("[", 20_000),
	} {
		f.Add([]byte(reply))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		result, err := readReply(bytes.NewReader(text))
		var want download.Reply
		wantErr := json.NewDecoder(bytes.NewReader(text[:min(len(text), maxReply)])).Decode(&want)
		switch {
		case (err == nil) != (wantErr == nil), err != nil && result != nil:
			t.Errorf("got %v, %v; want %v", result, err, wantErr)
		case err == nil && (result == nil) != (want.Error == ""):
			t.Errorf("the result is %v, want %q", result, want.Error)
		case result != nil && (len(result.Error()) > maxError+8 || !utf8.ValidString(result.Error())):
			t.Errorf("the result has %d bytes: %.100q", len(result.Error()), result)
		}
	})
}
