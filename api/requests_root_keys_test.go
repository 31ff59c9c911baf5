package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"berth/structs/cluster"
)

// rootKeyCalls has the requests to the routes of the root keys.
func rootKeyCalls() map[string]routeCall {
	return map[string]routeCall{
		"PUT /v1/operator/keyring/rotate": {
			path:    "/v1/operator/keyring/rotate?full=true",
			rpc:     "Keyring.Rotate",
			request: &cluster.KeyringRotateRequest{Full: true},
		},
		"DELETE /v1/operator/keyring/key/{id}": {
			path:    "/v1/operator/keyring/key/k1",
			rpc:     "Keyring.Delete",
			request: &cluster.RootKeyRemoveRequest{KeyID: "k1"},
		},
	}
}

func TestRootKeys_RejectWhatIsNotServed(t *testing.T) {
	s := newServer(t)
	for path, want := range map[string]string{
		"PUT /v1/operator/keyring/rotate?algo=rot13":      "aes256-gcm",
		"PUT /v1/operator/keyring/rotate?publish_time=7":  "active at once",
		"DELETE /v1/operator/keyring/key/k1?force=true":   "never removed",
		"DELETE /v1/operator/keyring/key/k1?force=surely": "true or false",
	} {
		method, rest, _ := strings.Cut(path, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+rest, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), want) {
			t.Errorf("%s: got %d %s, error %v", path, resp.StatusCode, body, err)
		}
	}
}
