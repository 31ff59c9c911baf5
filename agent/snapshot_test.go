package agent

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"berth/internal/keyring"
	"berth/structs"
)

func TestForwarded_CarriesTheKeysOfARestore(t *testing.T) {
	f := forwarded{
		method: http.MethodPut,
		body:   strings.NewReader("archive"),
		keys:   keyring.RestoreKeys{File: "the key\n", LoseSecrets: true},
	}
	req, err := f.request(t.Context(), "10.0.0.1:4646", true)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil || string(body) != "archive" || req.Method != http.MethodPut {
		t.Errorf("%s has the body %q, error %v", req.Method, body, err)
	}
	if got := req.Header.Get("X-Berth-Key-File"); got != "the key" {
		t.Errorf("the header has %q", got)
	}
	if got := keyring.RestoreKeysOf(req.Header); !got.LoseSecrets {
		t.Errorf("got %+v", got)
	}
	if got := req.URL.String(); got != "http://10.0.0.1:4646/v1/operator/snapshot" {
		t.Errorf("the URL is %s", got)
	}
}

func TestForwarded_SendsNoKeyInPlainForm(t *testing.T) {
	withKey := keyring.RestoreKeys{File: "the key"}
	for _, c := range []struct {
		leader string
		secure bool
		keys   keyring.RestoreKeys
		want   structs.Kind
	}{
		{"10.0.0.1:4646", false, withKey, structs.KindPrecondition},
		{"10.0.0.1:4646", true, withKey, ""},
		{"10.0.0.1:4646", false, keyring.RestoreKeys{LoseSecrets: true}, ""},
		{"127.0.0.1:4646", false, withKey, ""},
		{"", true, withKey, structs.KindUnavailable},
	} {
		sent := forwarded{method: http.MethodPut, token: "t", keys: c.keys}
		req, err := sent.request(t.Context(), c.leader, c.secure)
		if err == nil && req.Header.Get("X-Berth-Token") != "t" {
			t.Errorf("%+v: the leader does not get the token of the caller", c)
		}
		if got := structs.KindOf(err); err == nil && c.want != "" || err != nil && got != c.want {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}
