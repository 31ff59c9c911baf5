package endpoints_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/structs"
	"berth/structs/storage"
)

// TestWhy_IsTheSameTextOverHTTP: an answer has its reasons as a tree and as the text of the command line.
func TestWhy_IsTheSameTextOverHTTP(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddVolume("v")
	s.Claim("v", "a1", "n1")
	handler := api.NewHandler(api.Config{
		Routes:       areas.Routes(),
		Caller:       s.RPC,
		Agent:        &apitest.Agent{},
		Logger:       hclog.NewNullLogger(),
		AllowedHosts: []string{"example.com"},
	})
	for path, want := range map[string]string{
		"/v1/job/job-a1/why":   "  its claim on volume v is granted: volume v is being attached to node name-n1\n",
		"/v1/volume/csi/v/why": "  volume v is attaching at node name-n1\n",
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if answer.Code != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, answer.Code, answer.Body)
			continue
		}
		var why structs.WhyResponse
		err := json.Unmarshal(answer.Body.Bytes(), &why)
		if err != nil {
			t.Fatal(err)
		}
		if !why.Waits || !strings.Contains(why.Text, want) {
			t.Errorf("%s: it waits: %t, for\n%s\nwant %q in it", path, why.Waits, why.Text, want)
		}
		if text := structs.WhyText(why.Reasons); why.Text != text {
			t.Errorf("%s: the text is\n%s\nand that of the reasons\n%s", path, why.Text, text)
		}
	}
}

// A purged job has no row, and its allocations may still end. Why tells what they wait for until then.
func TestWhy_OfAPurgedJobWhoseAllocationsEnd(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	endpointstest.Must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: "job-a1", Purge: true})
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobGet, &structs.JobGetRequest{JobID: "job-a1"})
	why := endpointstest.Must(s, structs.JobWhy, &structs.JobGetRequest{JobID: "job-a1"})
	for _, want := range []string{
		"job job-a1 is deleted, and 1 allocation of it did not end yet\n  allocation a1 ",
		"-> berth alloc status a1",
	} {
		if !why.Waits || !strings.Contains(why.Text, want) {
			t.Errorf("it waits: %t, for\n%s\nwant %q in it", why.Waits, why.Text, want)
		}
	}
	s.EndAlloc("a1", "n1")
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobWhy, &structs.JobGetRequest{JobID: "job-a1"})
}

// TestWhy_TellsOfAChangeOfParameters: one that is pending waits. One that was rejected does not, and is
// shown.
func TestWhy_TellsOfAChangeOfParameters(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	v := endpointstest.ReadyVolume("v")
	v.MutableParameters = map[string]string{"iops": "3000"}
	endpointstest.MustPropose(s, fsm.VolumePut, endpointstest.RegisterRequest(v))
	why := endpointstest.Must(s, structs.VolumeWhy, &structs.CSIVolumeGetRequest{ID: "v"})
	if !why.Waits || !strings.Contains(why.Text, "the plugin is to change iops of volume v\n") ||
		strings.Contains(why.Text, "waits for nothing") {
		t.Errorf("while it is pending, it waits: %t, for\n%s", why.Waits, why.Text)
	}

	endpointstest.MustPropose(s, fsm.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID: "v", Op: storage.OpModify, RowIndex: s.GetVolume("v").CreateIndex, Final: true,
		Err: &structs.OperationError{Message: "too fast", Kind: structs.KindInvalid},
	})
	why = endpointstest.Must(s, structs.VolumeWhy, &structs.CSIVolumeGetRequest{ID: "v"})
	for _, want := range []string{
		"the plugin has rejected the last change of the mutable parameters of volume v", ": too fast",
		"-> correct mutable_parameters in its file and run it again: berth volume register FILE",
		"volume v waits for nothing",
	} {
		if why.Waits || !strings.Contains(why.Text, want) {
			t.Errorf("after its rejection, it waits: %t, for\n%s\nwant %q in it", why.Waits, why.Text, want)
		}
	}
}

func TestWhy_OfWhatDoesNotExist(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobWhy, &structs.JobGetRequest{JobID: "j"})
	endpointstest.Rejected(s, structs.KindNotFound, structs.VolumeWhy, &structs.CSIVolumeGetRequest{ID: "v"})
}
