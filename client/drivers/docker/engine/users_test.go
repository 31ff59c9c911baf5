package engine_test

import (
	"archive/tar"
	"encoding/base64"
	"net/http"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"berth/client/drivers/docker/dockertest"
	"berth/client/drivers/docker/engine"
)

// answerFiles makes the daemon have files in its containers. Those in links are links.
func answerFiles(t *testing.T, f *dockertest.Fake, files, links map[string]string) {
	f.Handle("GET /containers/{id}/archive", func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Query().Get("path")
		text, isFile := files[path]
		link, isLink := links[path]
		if !isFile && !isLink {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString([]byte("{}")))
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     "passwd",
			Size:     int64(len(text)),
		}
		if isLink {
			header.Typeflag = tar.TypeSymlink
			header.Linkname = link
		}
		archive := tar.NewWriter(w)
		err := archive.WriteHeader(header)
		if err == nil {
			_, err = archive.Write([]byte(text))
		}
		if err == nil {
			err = archive.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func TestUsers_ReadsTheFileBehindLinks(t *testing.T) {
	const passwd = "root:x:0:0::/:/sh\nbroken:x\nweb:x:7:8::/:/sh\nlarge:x:4294967296:1::/:/sh\n"
	users := []engine.User{{Name: "root"}, {Name: "web", UID: 7, GID: 8}}
	for name, c := range map[string]struct {
		files, links map[string]string
		want         []engine.User
	}{
		"a file": {map[string]string{"/etc/passwd": passwd}, nil, users},
		"links": {
			map[string]string{"/store/b/passwd": passwd},
			map[string]string{"/etc/passwd": "../store/a", "/store/a": "/store/b/passwd"},
			users,
		},
		"a loop":  {nil, map[string]string{"/etc/passwd": "/etc/passwd"}, nil},
		"no file": {nil, nil, nil},
	} {
		f := dockertest.NewFake(t)
		f.AddImage("a:1", "sha256:a")
		e := engine.New(f.Endpoint())
		id, err := e.Create(t.Context(), client.ContainerCreateOptions{
			Name:   "n",
			Config: &container.Config{Image: "a:1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		answerFiles(t, f, c.files, c.links)
		got, err := e.Users(t.Context(), id)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
