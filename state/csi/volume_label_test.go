package csi_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"berth/state/csi"
	"berth/structs"
)

func TestVolumeLabel_KeepsTheOtherLabels(t *testing.T) {
	w := threeNodes(t, false)
	w.MustPut()
	label := func(set map[string]string, unset ...string) error {
		req := &structs.CSIVolumeLabelRequest{ID: "v", Set: set, Unset: unset, WriteOptions: w.Now()}
		return try(w, csi.VolumeLabel, req)
	}
	want := func(labels map[string]string) {
		t.Helper()
		if got := w.VolumeRow().Labels; !maps.Equal(got, labels) {
			t.Errorf("got %v, want %v", got, labels)
		}
		stub := csi.VolumeStub(w.Store.Read(), w.VolumeRow())
		if !maps.Equal(stub.Labels, labels) {
			t.Errorf("the list has %v, want %v", stub.Labels, labels)
		}
	}

	for _, err := range []error{
		label(map[string]string{"tier": "gold", "owner": "billing"}),
		label(map[string]string{"tier": "silver"}, "owner", "missing"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want(map[string]string{"tier": "silver"})

	// A file without labels keeps them, and one with labels replaces them.
	w.MustPut()
	want(map[string]string{"tier": "silver"})
	w.MustPut(func(v *structs.CSIVolume) { v.Labels = map[string]string{"team": "a"} })
	want(map[string]string{"team": "a"})

	before := w.VolumeRow()
	if err := label(map[string]string{"team": "a"}); err != nil || w.VolumeRow() != before {
		t.Errorf("labels that the volume has: %v, and the row is another one", err)
	}
	if err := label(nil, "team"); err != nil || w.VolumeRow().Labels != nil {
		t.Errorf("the last label: %v, %v stay", err, w.VolumeRow().Labels)
	}

	many := map[string]string{}
	for n := range structs.MaxLabels + 1 {
		many[fmt.Sprint("k", n)] = ""
	}
	for _, bad := range []map[string]string{
		many,
		{"": "x"},
		{"a b": "x"},
		{"-a": "x"},
		{strings.Repeat("k", structs.MaxLabelKey+1): "x"},
		{"a": "two\nlines"},
		{"a": strings.Repeat("v", structs.MaxLabelValue+1)},
	} {
		wantKind(t, label(bad), structs.KindInvalid)
	}
	err := try(w, csi.VolumeLabel, &structs.CSIVolumeLabelRequest{ID: "w", WriteOptions: w.Now()})
	wantKind(t, err, structs.KindNotFound)
}
