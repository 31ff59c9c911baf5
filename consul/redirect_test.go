package consul

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hashicorp/consul/api"
)

// A proxy that leads from http to https would make a write to a read, whose answer looks like a success.
func TestConn_FollowsNoRedirect(t *testing.T) {
	arrived := 0
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived++
		_, _ = w.Write([]byte("true"))
	}))
	defer target.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL+r.URL.RequestURI(), http.StatusMovedPermanently)
	}))
	defer proxy.Close()

	c := DefaultConfig()
	c.Address = proxy.URL
	conn, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Client.KV().Put(&api.KVPair{Key: "k"}, nil)
	if err == nil || arrived > 0 {
		t.Errorf("a write: got %v, and the target got %d requests", err, arrived)
	}
	var out bool
	err = conn.Post(t.Context(), "/v1/acl/login", struct{}{}, &out)
	if err == nil || arrived > 0 {
		t.Errorf("a call: got %v, and the target got %d requests", err, arrived)
	}
}
