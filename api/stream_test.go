package api_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"berth/api"
	"berth/api/apitest"
	"berth/api/volumes"
	"berth/bench/shape"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// listMeta is the metadata of the lists.
var listMeta = structs.QueryMeta{Index: 7, KnownLeader: true}

// volumesInPages answers a list page by page, as servers elsewhere do.
func volumesInPages(s *server, n int) {
	apitest.On(s.caller, structs.CSIVolumeList, func(_ context.Context,
		req *structs.CSIVolumeListRequest) (*structs.CSIVolumeListResponse, error) {
		resp := &structs.CSIVolumeListResponse{QueryMeta: listMeta}
		from := 0
		if req.NextToken != "" {
			_, err := fmt.Sscan(req.NextToken, &from)
			if err != nil {
				return nil, structs.Errorf(structs.KindInvalid, "token %q", req.NextToken)
			}
		}
		to := n
		if req.PerPage > 0 && from+int(req.PerPage) < n {
			to = from + int(req.PerPage)
			resp.NextToken = fmt.Sprint(to)
		}
		for i := from; i < to; i++ {
			resp.Volumes = append(resp.Volumes, volumeStub(i))
		}
		return resp, nil
	})
}

// volumeStub returns a row of a list. Its ID has characters that JSON in HTML would escape.
func volumeStub(i int) *structs.CSIVolumeListStub {
	return &structs.CSIVolumeListStub{ID: fmt.Sprintf("v%05d <&>", i)}
}

// volumesAsRows answers a list row by row, as servers in the same process do.
func volumesAsRows(s *server, n int, each func(i int) error) {
	apitest.On(s.caller, structs.CSIVolumeList, func(_ context.Context,
		req *structs.CSIVolumeListRequest) (*structs.CSIVolumeListResponse, error) {
		if !req.Stream {
			return nil, structs.Errorf(structs.KindInternal, "expected a request for a stream")
		}
		resp := &structs.CSIVolumeListResponse{QueryMeta: listMeta}
		resp.Rows = func(do func(any) error) error {
			for i := range n {
				if each != nil {
					if err := each(i); err != nil {
						return err
					}
				}
				err := do(volumeStub(i))
				if err != nil {
					return err
				}
			}
			return nil
		}
		return resp, nil
	})
}

func TestList_IsCompleteFromPagesAndFromRows(t *testing.T) {
	s := newServer(t)
	for _, n := range []int{0, 1, 7, 999, 1000, 1001, 3500} {
		var want string
		for name, answer := range map[string]func(){
			"pages": func() { volumesInPages(s, n) },
			"rows":  func() { volumesAsRows(s, n, nil) },
		} {
			answer()
			resp, body := s.do(t, "GET", "/v1/volumes", "")
			var got []*structs.CSIVolumeListStub
			err := json.Unmarshal([]byte(body), &got)
			if err != nil || len(got) != n || got == nil {
				t.Fatalf("%d rows from %s: got %d, error %v: %.100s",
					n, name, len(got), err, body)
			}
			for i, v := range got {
				if v.ID != volumeStub(i).ID {
					t.Fatalf("%d rows from %s: row %d is %s", n, name, i, v.ID)
				}
			}
			if want == "" {
				want = body
			}
			if body != want ||
				resp.Header.Get("X-Nomad-Index") != "7" ||
				resp.Header.Get("X-Nomad-NextToken") != "" ||
				resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%d rows from %s: got the headers %v or another body",
					n, name, resp.Header)
			}
			if resp.Uncompressed != (len(body) >= 2<<10) {
				t.Errorf("%d rows from %s: got compression %t", n, name, resp.Uncompressed)
			}
		}
	}
	volumesInPages(s, 50)
	resp, body := s.do(t, "GET", "/v1/volumes?per_page=20", "")
	if resp.Header.Get("X-Nomad-NextToken") != "20" ||
		strings.Count(body, "ExternalID") != 20 {
		t.Errorf("with per_page: got the headers %v, want a page of 20", resp.Header)
	}
	_, body = s.do(t, "GET", "/v1/volumes?pretty", "")
	if !strings.Contains(body, "\n    {") ||
		strings.Count(body, "ExternalID") != 50 {
		t.Errorf("with pretty: got %.100s, want 50 indented rows", body)
	}
}

// TestList_SendsTheFirstRowsBeforeTheLastIsRead blocks the last row until the client has the first.
func TestList_SendsTheFirstRowsBeforeTheLastIsRead(t *testing.T) {
	for _, encoding := range []string{"identity", "gzip"} {
		s := newServer(t)
		arrived := make(chan struct{})
		volumesAsRows(s, 5000, func(i int) error {
			if i == 4999 {
				<-arrived
			}
			return nil
		})
		req, err := http.NewRequest("GET", s.URL+"/v1/volumes", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", encoding)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body := io.Reader(resp.Body)
		if encoding == "gzip" {
			body, err = gzip.NewReader(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
		}
		first := bufio.NewReader(body)
		if _, err := first.Peek(100); err != nil {
			t.Fatal(err)
		}
		close(arrived)
		var got []*structs.CSIVolumeListStub
		err = json.NewDecoder(first).Decode(&got)
		if err != nil || len(got) != 5000 {
			t.Errorf("%s: got %d rows, error %v, want 5000 rows", encoding, len(got), err)
		}
		_ = resp.Body.Close()
	}
}

func TestList_EndsEarlyAfterAnError(t *testing.T) {
	s := newServer(t)
	fail := func(at int) {
		volumesAsRows(s, 5000, func(i int) error {
			if i == at {
				return structs.Errorf(structs.KindUnavailable, "the server stops")
			}
			return nil
		})
	}
	fail(0)
	resp, body := s.do(t, "GET", "/v1/volumes", "")
	if resp.StatusCode != 503 || body != "the server stops\n" {
		t.Errorf("an error before the first row: got %d %q, want 503", resp.StatusCode, body)
	}
	fail(4000)
	c := api.NewClient(api.ClientConfig{Address: s.URL})
	defer c.Close()
	_, _, err := volumes.List(t.Context(), c, volumes.Filter{}, nil)
	if err == nil {
		t.Error("the client accepted a list that ends after an error")
	}
}

// slowReader is a client that reads nothing between the first piece of an answer and more.
type slowReader struct {
	httptest.ResponseRecorder
	first, more chan struct{}
	once        sync.Once
}

func (w *slowReader) Write(b []byte) (int, error) {
	w.once.Do(func() {
		close(w.first)
		<-w.more
	})
	return w.ResponseRecorder.Write(b)
}

// TestList_SlowReaderBlocksNoWriter checks that a write during the read of 10,000 rows does not wait for the
// reader and does not show in the list.
func TestList_SlowReaderBlocksNoWriter(t *testing.T) {
	h, store := benchHandler(t, 1)
	w := &slowReader{
		ResponseRecorder: *httptest.NewRecorder(),
		first:            make(chan struct{}),
		more:             make(chan struct{}),
	}
	var list sync.WaitGroup
	list.Go(func() {
		h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/volumes?type=csi", nil))
	})
	<-w.first
	const written = 100
	for i := range written {
		v := shape.Volume(fmt.Sprintf("zzz-%d", i), 2*benchSize+i)
		req := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}
		err := store.Write(store.Index()+1, func(tx *state.WriteTx) error {
			return csi.VolumePut(tx, req)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(w.more)
	list.Wait()
	if n := countVolumes(t, &w.ResponseRecorder); n != benchSize+1 {
		t.Errorf("got %d volumes, want the %d from before the writes", n, benchSize+1)
	}
	after := httptest.NewRecorder()
	h.ServeHTTP(after, httptest.NewRequest("GET", "/v1/volumes?prefix=zzz", nil))
	if n := countVolumes(t, after); n != written {
		t.Errorf("got %d new volumes, want %d", n, written)
	}
}

// TestList_AllocatesNothingPerRow checks that a list of 10,000 volumes allocates as little as one request.
func TestList_AllocatesNothingPerRow(t *testing.T) {
	h, _ := benchHandler(t, 1)
	req := httptest.NewRequest("GET", "/v1/volumes?type=csi", nil)
	n := testing.AllocsPerRun(5, func() {
		w := &discardWriter{header: http.Header{}}
		h.ServeHTTP(w, req.Clone(req.Context()))
		if w.size < 100*benchSize {
			t.Errorf("got %d bytes, want at least %d", w.size, 100*benchSize)
		}
	})
	if n > 1000 {
		t.Errorf("got %v heap allocations for %d rows, want at most 1000", n, benchSize)
	}
}

func countVolumes(t *testing.T, answer *httptest.ResponseRecorder) int {
	t.Helper()
	var got []*structs.CSIVolumeListStub
	err := json.Unmarshal(answer.Body.Bytes(), &got)
	if err != nil {
		t.Fatal(err)
	}
	return len(got)
}
