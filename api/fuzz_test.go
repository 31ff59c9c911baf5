package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/structs"
)

// FuzzHTTP checks that the handler answers every request without a panic, and that its errors are bounded.
func FuzzHTTP(f *testing.F) {
	for name, r := range routeCalls() {
		method, _, _ := strings.Cut(name, " ")
		f.Add(method, r.path, "X-Nomad-CSI-Secrets: a=b", []byte(r.body))
	}
	f.Add("PUT", "/v1/jobs", "Content-Type: application/json", []byte(`{"Job":{"ID":"a","TaskGroups":[
		{"Count":2000000000,"Tasks":[{"Resources":{"CPU":9223372036854775807}}]}]}}`))
	f.Add("PUT", "/v1/job/a/plan", "Host: evil.example", []byte(`{"Job":null}`))
	caller := &apitest.Caller{}
	apitest.On(caller, structs.JobRegister,
		func(_ context.Context, req *structs.JobRegisterRequest) (*structs.JobRegisterResponse, error) {
			req.Job.Canonicalize()
			return &structs.JobRegisterResponse{}, req.Job.Validate()
		})
	apitest.On(caller, structs.CSIVolumeRegister, func(_ context.Context,
		req *structs.CSIVolumeRegisterRequest) (*structs.CSIVolumeRegisterResponse, error) {
		for _, v := range req.Volumes {
			v.Canonicalize()
			if err := v.Validate(); err != nil {
				return nil, err
			}
		}
		return &structs.CSIVolumeRegisterResponse{}, nil
	})
	h := api.NewHandler(api.Config{
		Caller: caller,
		Agent:  newAgent(),
		Logger: hclog.NewNullLogger(),
	})
	f.Fuzz(func(t *testing.T, method, target, header string, body []byte) {
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n\r\n", method,
			target, len(body), header)
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append([]byte(head), body...))))
		if err != nil {
			return // net/http answers those
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		caller.Take()
		text := w.Body.String()
		if strings.Contains(text, "panicked") && w.Code == http.StatusInternalServerError {
			t.Fatalf("%s %q: %s", method, target, text)
		}
		if w.Header().Get("X-Berth-Error-Kind") != "" &&
			(w.Code < 400 ||
				len(text) > structs.MaxErrorText+16) {
			t.Fatalf("%s %q: %d, an error of %d bytes",
				method, target, w.Code, len(text))
		}
	})
}
