package api_test

import (
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/structs"
)

func TestHandler_ReadsSecretsFromHeaders(t *testing.T) {
	s := newServer(t)
	for header, want := range map[[2]string]structs.Secrets{
		{"X-Nomad-CSI-Secrets", "a=1,b=2"}:                          {"a": "1", "b": "2"},
		{"X-Nomad-CSI-Secrets", "a=x,y=z,q"}:                        {"a": "x", "y": "z,q"},
		{"X-Nomad-CSI-Secrets", "a=1=2"}:                            {"a": "1=2"},
		{"X-Berth-CSI-Secrets", "eyJhIjoieCx5PXoiLCJiIjoi4oKsIn0="}: {"a": "x,y=z", "b": "€"},
	} {
		req, _ := http.NewRequest("DELETE", s.URL+"/v1/volume/csi/v/delete", nil)
		req.Header.Set(header[0], header[1])
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		got := s.caller.Take()[0].Request.(*structs.CSIVolumeDeleteRequest).Secrets
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %v", header, map[string]string(got))
		}
	}
	for _, bad := range [][2]string{
		{"X-Nomad-CSI-Secrets", "hunter2"},
		{"X-Berth-CSI-Secrets", "hunter2"},
		{"X-Berth-CSI-Secrets", "aHVudGVyMg=="},
	} {
		req, _ := http.NewRequest("DELETE", s.URL+"/v1/volume/csi/v/delete", nil)
		req.Header.Set(bad[0], bad[1])
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 400 || bytes.Contains(body, []byte("hunter2")) {
			t.Errorf("%v: got status %d, want 400 without the secret: %s", bad, resp.StatusCode, body)
		}
	}
}

func TestHandler_HidesSecrets(t *testing.T) {
	s := newServer(t)
	vol := structs.CSIVolume{
		ID: "v",
		CSIVolumeSpec: structs.CSIVolumeSpec{
			Secrets:      structs.Secrets{"password": "hunter2"},
			MountOptions: &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"password=hunter2"}},
		},
	}
	attachment := &structs.CSIAttachment{
		VolumeID:       "v",
		Secrets:        vol.Secrets,
		PublishContext: vol.Secrets,
		MountOptions:   vol.MountOptions,
	}
	detail := &structs.CSIVolumeDetail{
		CSIVolume:   vol,
		Attachments: []*structs.CSIAttachment{attachment},
	}
	apitest.Answer(s.caller, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{Volume: detail})
	apitest.Answer(s.caller, structs.CSIVolumeRegister,
		structs.CSIVolumeRegisterResponse{Volumes: []*structs.CSIVolume{&vol}})
	for _, r := range [][3]string{
		{"GET", "/v1/volume/csi/v", ""},
		{"PUT", "/v1/volume/csi/v", `{"Volumes":[{"ID":"v"}]}`},
	} {
		resp, body := s.do(t, r[0], r[1], r[2])
		if resp.StatusCode != 200 ||
			strings.Contains(body, "hunter2") ||
			!strings.Contains(body, `"[REDACTED]"`) {
			t.Errorf("%s %s: got status %d, want 200 with redacted flags: %s",
				r[0], r[1], resp.StatusCode, body)
		}
	}
	if vol.MountOptions.MountFlags[0] != "password=hunter2" ||
		attachment.MountOptions.MountFlags[0] != "password=hunter2" {
		t.Error("the handler changed a part that the answer shares with the state")
	}
}
