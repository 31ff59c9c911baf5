package cluster_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/cluster"
)

func TestNew_MakesADifferentKeyOf32BytesEachTime(t *testing.T) {
	first := cluster.NewGossipKey()
	key, err := cluster.ParseGossipKey("the key", first)
	if err != nil || len(key) != 32 || first == cluster.NewGossipKey() {
		t.Errorf("got %d bytes, error %v", len(key), err)
	}
}

func TestParse_TakesKeysOfAES(t *testing.T) {
	const canary = "canary-of-16-byt"
	encode := base64.StdEncoding.EncodeToString
	for text, want := range map[string]string{
		encode([]byte(canary)):                 "",
		encode([]byte(canary + "12345678")):    "",
		encode([]byte(canary + canary)):        "",
		"":                                     "a key of 0 bytes",
		encode([]byte(canary + "1")):           "a key of 17 bytes",
		canary:                                 "no base64",
		encode([]byte(canary)) + "\n":          "no base64",
		strings.Repeat(canary, 5):              "expected at most 64",
		" " + encode([]byte(canary)):           "no base64",
		"Y2FuYXJ5LW9mLTE2LWJ5dA":               "no base64",
		"Y2FuYXJ5LW9mLTE2LWJ5dB==":             "no base64", // bits behind the end
		encode([]byte(canary + canary + "xx")): "a key of 34 bytes",
	} {
		_, err := cluster.ParseGossipKey("server: encrypt", text)
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		shown := ""
		if err != nil {
			shown = err.Error()
		}
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(shown, want) ||
			!strings.Contains(shown, "server: encrypt") || !strings.Contains(shown, cluster.GossipKeyCommand) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
		if strings.Contains(shown, "canary") || strings.Contains(shown, encode([]byte("can"))) {
			t.Errorf("the error shows the key: %s", shown)
		}
	}
}
