package api_test

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"

	"berth/api/apitest"
	"berth/structs"
)

// TestVolumePut_AcceptsEveryFieldOfARead keeps "read, change, write" working when the answer gets a field.
func TestVolumePut_AcceptsEveryFieldOfARead(t *testing.T) {
	s := newServer(t)
	apitest.Answer(s.caller, structs.CSIVolumeCreate, structs.CSIVolumeRegisterResponse{})
	for _, f := range reflect.VisibleFields(reflect.TypeFor[structs.CSIVolumeDetail]()) {
		if f.Anonymous || len(f.Index) > 1 { // of the volume itself
			continue
		}
		body := fmt.Sprintf(`{"Volumes":[{"ID":"v","PluginID":"p",%q:"something"}]}`, f.Name)
		resp, text := s.do(t, http.MethodPut, "/v1/volume/csi/v/create", body)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: got status %d, want 200: %s", f.Name, resp.StatusCode, text)
		}
	}
}
