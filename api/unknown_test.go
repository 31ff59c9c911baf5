package api_test

import (
	"slices"
	"strings"
	"testing"

	"berth/api"
	"berth/api/areas"
)

// A path below a noun that no route has is no ID: the answer names the route, and no procedure is called.
func TestHandler_NamesTheRouteOfAnUnknownPath(t *testing.T) {
	s := newServer(t)
	for _, path := range []string{
		"/v1/job/j/nosuch",
		"/v1/job/j/versions/1/nosuch",
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
		"/v1/volume/csi/v/unpublish",
		"/v1/volume/nosuch/v",
		"/v1/service/s/i/nosuch",
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

// hasRoute reports whether a path fits a route. An ID is one segment.
func hasRoute(path string) bool {
	segments := strings.Split(path, "/")
	return slices.ContainsFunc(areas.Routes(), func(r *api.Route) bool {
		pattern := strings.Split(r.Path, "/")
		rest := strings.HasSuffix(r.Path, "...}")
		if len(segments) != len(pattern) && (!rest || len(segments) < len(pattern)) {
			return false
		}
		for i, p := range pattern {
			if !strings.HasPrefix(p, "{") && p != segments[i] {
				return false
			}
		}
		return true
	})
}

// nearRoutes returns the paths of all routes with one segment more, or with another word in place of one.
func nearRoutes() (paths []string) {
	for _, r := range areas.Routes() {
		path := strings.NewReplacer("{id}", "x", "{instance}", "x", "{path...}", "x").Replace(r.Path)
		segments := strings.Split(path, "/")
		for i := 2; i <= len(segments); i++ {
			paths = append(paths, strings.Join(slices.Insert(slices.Clone(segments), i, "nosuch"), "/"))
			if i < len(segments) {
				near := slices.Clone(segments)
				near[i] = "nosuch"
				paths = append(paths, strings.Join(near, "/"))
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// endsKnown reports whether a path is one whose ID may have slashes, because a known word follows it.
func endsKnown(path string) bool {
	slashed := []string{"/v1/job/", "/v1/plugin/csi/", "/v1/volume/csi/"}
	return !strings.HasSuffix(path, "/nosuch") && slices.ContainsFunc(slashed, func(prefix string) bool {
		return strings.HasPrefix(path, prefix)
	})
}

// TestHandler_TakesNoUnknownPathForAnID makes requests to the neighbours of all routes. Clients do not escape
// the IDs of volumes, except to remove them.
func TestHandler_TakesNoUnknownPathForAnID(t *testing.T) {
	s := newServer(t)
	unknown := 0
	for _, path := range nearRoutes() {
		if hasRoute(path) || endsKnown(path) {
			continue
		}
		unknown++
		for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
			if strings.HasPrefix(path, "/v1/volume/csi/") && method != "DELETE" {
				continue
			}
			resp, body := s.do(t, method, path, "{}")
			if resp.StatusCode != 404 || !strings.HasPrefix(body, "there is no route "+method+" ") {
				t.Errorf("%s %s: got status %d: %s", method, path, resp.StatusCode, body)
			}
			for _, c := range s.caller.Take() {
				t.Errorf("%s %s called %s", method, path, c.Method)
			}
		}
	}
	if unknown < 100 {
		t.Errorf("%d paths are unknown", unknown)
	}
}
