package api_test

import (
	"strings"
	"testing"
)

// A path below a noun that no route has is no ID: the answer names the route, and no procedure is called.
func TestHandler_NamesTheRouteOfAnUnknownPath(t *testing.T) {
	s := newServer(t)
	for _, path := range []string{
		"/v1/job/j/nosuch",
		"/v1/allocation/a/nosuch",
		"/v1/client/allocation/a/nosuch",
		"/v1/client/fs/nosuch/a",
		"/v1/evaluation/e/nosuch",
		"/v1/evaluations/nosuch",
		"/v1/node/n/nosuch",
		"/v1/node/pool/p/nosuch",
		"/v1/deployment/d/nosuch",
		"/v1/namespace/n/nosuch",
		"/v1/plugin/csi/p/nosuch",
		"/v1/plugin/nosuch/p",
		"/v1/volume/csi/v/snapshot",
		"/v1/volume/nosuch/v",
		"/v1/service/s/nosuch",
		"/v1/search/nosuch",
		"/v1/operator/nosuch",
		"/v1/system/nosuch",
		"/v1/agent/nosuch",
	} {
		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			resp, body := s.do(t, method, path, "{}")
			want := "there is no route " + method + " " + path + " in this API"
			if resp.StatusCode != 404 || strings.TrimSpace(body) != want {
				t.Errorf("got status %d: %s, want 404: %s", resp.StatusCode, body, want)
			}
			for _, c := range s.caller.Take() {
				t.Errorf("%s %s called %s", method, path, c.Method)
			}
		}
	}
}
