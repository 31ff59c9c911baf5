package dockertest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// wait answers when a container does not run. One that is gone has no code.
func (f *Fake) wait(w http.ResponseWriter, r *http.Request, id string) {
	// As from the daemon, the header tells the caller that the wait has begun.
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		c := f.Find(id)
		if c == nil || !c.State.Running {
			code := 0
			if c != nil {
				code = c.State.ExitCode
			}
			answer(w, map[string]any{"StatusCode": code})
			return
		}
		if !f.await(r, c) {
			return
		}
	}
}

func (f *Fake) logs(w http.ResponseWriter, r *http.Request, id string) {
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	since := sinceOf(r.URL.Query().Get("since"))
	sent := 0
	for {
		c := f.Find(id)
		if c == nil {
			return
		}

		for _, l := range c.output[sent:] {
			sent++
			if !l.at.Before(since) {
				writeLine(w, l, c.Request.Tty)
			}
		}

		w.(http.Flusher).Flush()
		if !c.State.Running || r.URL.Query().Get("follow") == "" || !f.await(r, c) {
			return
		}
	}
}

// sinceOf reads seconds and nanoseconds, as "1700000000.000000001".
func sinceOf(text string) time.Time {
	var seconds, nanos int64
	_, err := fmt.Sscanf(text, "%d.%09d", &seconds, &nanos)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, nanos)
}

func writeLine(w http.ResponseWriter, l line, tty bool) {
	text := l.at.UTC().Format("2006-01-02T15:04:05.000000000Z") + " " + l.text
	if !tty {
		header := [8]byte{l.stream}
		binary.BigEndian.PutUint32(header[4:], uint32(len(text)))
		_, _ = w.Write(header[:])
	}
	_, _ = w.Write([]byte(text))
}

func (f *Fake) serveImages(w http.ResponseWriter, r *http.Request, path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ref, isInspect := strings.CutSuffix(path, "/json")
	switch {
	case r.Method == http.MethodGet && isInspect && f.images[ref] != "":
		answer(w, map[string]any{"Id": f.images[ref]})
	case r.Method == http.MethodPost && path == "create":
		ref := r.URL.Query().Get("fromImage") + ":" + r.URL.Query().Get("tag")
		ref = strings.TrimPrefix(ref, "docker.io/library/")
		f.images[ref] = "sha256:" + ref
		f.images["sha256:"+ref] = "sha256:" + ref
		answer(w, map[string]any{"status": "Downloaded"})

	case r.Method == http.MethodDelete && f.images[path] != "":
		f.deleteImage(w, f.images[path])
	default:
		fail(w, http.StatusNotFound, "No such image: "+path)
	}
}

func (f *Fake) deleteImage(w http.ResponseWriter, id string) {
	for _, c := range f.containers {
		if c.image == id {
			fail(w, http.StatusConflict, "the image is in use")
			return
		}
	}
	maps.DeleteFunc(f.images, func(_, other string) bool { return other == id })
	answer(w, []map[string]any{{"Deleted": id}})
}
