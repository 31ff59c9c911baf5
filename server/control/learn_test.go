package control

import (
	"strings"
	"testing"

	"berth/state/csi"
	"berth/structs"
)

// endsPlugin is the error of a call that a node does not make.
var endsPlugin = &structs.Error{
	Kind: structs.KindPrecondition,
	Code: structs.CSICodeEndsPlugin,
	Text: "no call",
}

func TestLearned_KeepsTheRowOfAVolumeThatMayBeThere(t *testing.T) {
	made := csi.VolumeName("v", structs.NewID())
	rejected := func(kind structs.Kind) error { return &structs.Error{Kind: kind, Code: "C", Text: "no"} }
	exists := rejected(structs.KindConflict)
	named := func(name string) structs.CSIVolume {
		return structs.CSIVolume{CSIVolumeSpec: structs.CSIVolumeSpec{Name: name}}
	}
	for name, c := range map[string]struct {
		volume structs.CSIVolume
		err    error
		drops  bool
	}{
		"no space":              {named(made), exhaustedError("full"), true},
		"exists under our name": {named(made), exists, false},
		"exists, and was called": {structs.CSIVolume{
			CSIVolumeSpec:   structs.CSIVolumeSpec{Name: "db"},
			CSIVolumeStatus: structs.CSIVolumeStatus{Call: &structs.CSICall{}},
		}, exists, false},
		"exists, and was called on": {structs.CSIVolume{
			CSIVolumeSpec:   structs.CSIVolumeSpec{Name: "db"},
			CSIVolumeStatus: structs.CSIVolumeStatus{Unanswered: true},
		}, exists, false},
		"exists under a given name": {named("db"), exists, true},
		"not called":                {named(made), structs.Invalidf("no capability"), false},
		"invalid":                   {named(made), rejected(structs.KindInvalid), true},
		"precondition":              {named(made), rejected(structs.KindPrecondition), true},
		"denied":                    {named("db"), rejected(structs.KindDenied), false},
		"ends its plugin":           {named(made), endsPlugin, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.volume
			v.ID = "v"
			v.PluginID = "p"
			outcome, err := learned(&v, nil, c.err)
			if drops := err == nil && outcome.Op == "delete"; drops != c.drops {
				t.Fatalf("it drops the row: %t; %+v, %v", drops, outcome, err)
			}
			isRejection := structs.CodeOf(c.err) != "" && !structs.IsKind(c.err, structs.KindDenied)
			if c.drops || !isRejection || c.err == endsPlugin {
				return
			}

			if structs.KindOf(err) != structs.KindUnavailable {
				t.Errorf("the call is not repeated: %v", err)
			}
			for _, want := range []string{`plugin "p" may have volume "v"`, "berth volume deregister -force v"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in %v", want, err)
				}
			}
		})
	}

	answer := &structs.CSIVolumeOutcome{Op: "create", ExternalID: "x"}
	outcome, err := learned(&structs.CSIVolume{}, answer, nil)
	if outcome != answer || err != nil {
		t.Errorf("the answer became %+v, %v", outcome, err)
	}
}

func TestUnmade_IsNilOnlyIfThePluginHasRejectedTheRequest(t *testing.T) {
	coded := func(kind structs.Kind) error { return &structs.Error{Kind: kind, Code: "C", Text: "no"} }
	for name, c := range map[string]struct {
		err  error
		want string // of the error; "": nil
	}{
		"invalid":      {coded(structs.KindInvalid), ""},
		"precondition": {coded(structs.KindPrecondition), ""},
		"exists":       {coded(structs.KindConflict), "delete the row alone: berth x"},
		"ends plugin":  {endsPlugin, "no call"},
		"not called":   {structs.Invalidf("not called: no capability"), "not called"},
		"away":         {structs.Unavailablef("away"), "away"},
	} {
		err := unmade(c.err, "berth x")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
