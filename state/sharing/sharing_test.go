package sharing

import (
	"fmt"
	"reflect"
	"testing"

	"berth/internal/mvcc"
	"berth/structs"
)

// TestAlloc_SharesTheResourcesOfAPlan checks that allocations of one plan share equal resources, and that
// others keep their own.
func TestAlloc_SharesTheResourcesOfAPlan(t *testing.T) {
	like := &structs.Allocation{ID: "a1", Resources: &structs.Resources{CPU: 100}}
	device := []*structs.RequestedDevice{{Name: "gpu", Count: 1}}
	for name, c := range map[string]struct {
		own   structs.Resources
		share bool
	}{
		"equal":       {structs.Resources{CPU: 100}, true},
		"different":   {structs.Resources{CPU: 100, Cores: 1}, false},
		"with device": {structs.Resources{CPU: 100, Devices: device}, false},
	} {
		a := &structs.Allocation{ID: "a2", Resources: new(c.own)}
		Alloc(a, like)
		if a.ID != "a2" || !reflect.DeepEqual(*a.Resources, c.own) || (a.Resources == like.Resources) != c.share {
			t.Errorf("%s: got %s with %+v, shared %t", name, a.ID, a.Resources, a.Resources == like.Resources)
		}
	}
}

// Each dispatch has its own metadata. In the interner it would take the places of parts that rows share.
func TestJob_KeepsNoMetadataOfADispatch(t *testing.T) {
	shared := func(dispatched bool, name string) bool {
		j := &structs.Job{ID: "j", Dispatched: dispatched, Meta: map[string]string{"file": name}}
		Job(j)
		equal := map[string]string{"file": name}
		return reflect.ValueOf(j.Meta).Pointer() == reflect.ValueOf(*mvcc.InternValue(&equal)).Pointer()
	}
	found := false
	for n := range 3 { // the interner may drop all its values once
		if shared(true, fmt.Sprint("a dispatch ", n)) {
			t.Error("the interner has the metadata of a dispatch")
		}
		found = found || shared(false, fmt.Sprint("a job ", n))
	}
	if !found {
		t.Error("the interner has the metadata of no job")
	}
}
