package ui

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// sendInProcess sends a request to a handler on behalf of a browser.
func sendInProcess(t *testing.T, h http.HandlerFunc, body io.Reader) (*http.Response, error) {
	t.Helper()
	from := httptest.NewRequest(http.MethodGet, "https://agent.example/ui/", nil)
	from.TLS = &tls.ConnectionState{ServerName: "agent.example"}
	c := &http.Client{Transport: &inProcess{Handler: h, From: from}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1/v1/jobs?a=b", body)
	if err != nil {
		t.Fatal(err)
	}
	return c.Do(req)
}

func TestTransport_GivesTheHandlerTheCallerOfTheBrowser(t *testing.T) {
	resp, err := sendInProcess(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		if r.Host != "agent.example" || r.RemoteAddr == "" || r.TLS == nil || r.TLS.ServerName != "agent.example" ||
			r.RequestURI != "/v1/jobs?a=b" || string(got) != "the body" {
			t.Errorf("the handler got %+v and the body %q", r, got)
		}
		w.Header().Set("X-Nomad-Index", "7")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, "no")
		w.Header().Set("X-Late", "x")
	}, strings.NewReader("the body"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusConflict || resp.Header.Get("X-Nomad-Index") != "7" ||
		resp.Header.Get("X-Late") != "" || string(got) != "no" || err != nil {
		t.Errorf("got %d %v %q %v", resp.StatusCode, resp.Header, got, err)
	}
	_ = resp.Body.Close()
}

func TestTransport_AnswersWithoutABody(t *testing.T) {
	resp, err := sendInProcess(t, func(http.ResponseWriter, *http.Request) {}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK || len(got) != 0 || err != nil {
		t.Errorf("got %d %q %v", resp.StatusCode, got, err)
	}
	_ = resp.Body.Close()
}

// A handler that panics with http.ErrAbortHandler wants its answer to be cut: the caller must not take a part
// for the whole.
func TestTransport_BreaksOffWhenTheHandlerPanics(t *testing.T) {
	resp, err := sendInProcess(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "part")
		panic(http.ErrAbortHandler)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if string(got) != "part" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, %v", got, err)
	}
	_ = resp.Body.Close()

	resp, err = sendInProcess(t, func(http.ResponseWriter, *http.Request) { panic("fault") }, nil)
	if err != nil || resp.StatusCode != http.StatusInternalServerError {
		t.Fatalf("got %v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

// The handler writes without an end. Its writes fail when the caller closes the body, and Close waits for it.
func TestTransport_CloseEndsTheHandler(t *testing.T) {
	ended := false
	resp, err := sendInProcess(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			_, err := io.WriteString(w, "line\n")
			if err != nil {
				break
			}
		}
		<-r.Context().Done()
		ended = true
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	_, err = io.ReadFull(resp.Body, got)
	if err != nil || string(got) != "line\n" {
		t.Errorf("got %q, %v", got, err)
	}
	_ = resp.Body.Close()
	if !ended {
		t.Error("the handler goes on after Close")
	}
}

func TestTransport_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := false
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		ended = true
	})
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", nil)
	resp, err := (&inProcess{Handler: h, From: req}).RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !ended {
		t.Error("the handler goes on after RoundTrip")
	}
}
