package structs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"berth/internal/codec"
)

func TestSecrets_NeverShow(t *testing.T) {
	v := &CSIVolume{ID: "db", CSIVolumeSpec: CSIVolumeSpec{Secrets: Secrets{"password": "hunter2"}}}
	asJSON, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	shown := string(asJSON)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown += fmt.Sprintf(verb, v.Secrets) + fmt.Sprintf(verb, *v)
	}
	for _, leak := range []string{"hunter2", "password", fmt.Sprintf("%x", "hunter2")} {
		if strings.Contains(shown, leak) {
			t.Errorf("%q shows in %s", leak, shown)
		}
	}
}

func TestSecrets_TravelBetweenServersAndNodes(t *testing.T) {
	b, err := codec.Encode(&CSIVolume{CSIVolumeSpec: CSIVolumeSpec{Secrets: Secrets{"password": "hunter2"}}})
	if err != nil {
		t.Fatal(err)
	}
	var got CSIVolume
	if err := codec.Decode(b, &got); err != nil || got.Secrets["password"] != "hunter2" {
		t.Fatalf("got the secrets %v, %v", map[string]string(got.Secrets), err)
	}
	if err := json.Unmarshal([]byte(`{"Secrets":{"a":"b"}}`), &got); err != nil || got.Secrets["a"] != "b" {
		t.Fatalf("got the secrets %v, %v", map[string]string(got.Secrets), err)
	}
}
