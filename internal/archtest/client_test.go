package archtest

import (
	"reflect"
	"testing"

	"berth/api"
)

// TestClient_HasTheMethodsThatItsCommentNames: a call of the API is a function of its area, as jobs.List. So
// a reader finds it in one place, and its name does not repeat the area.
func TestClient_HasTheMethodsThatItsCommentNames(t *testing.T) {
	want := map[string]bool{"Address": true, "Close": true, "Namespace": true, "On": true}
	client := reflect.TypeFor[*api.Client]()
	for i := range client.NumMethod() {
		name := client.Method(i).Name
		if !want[name] {
			t.Errorf("api.Client.%s: make it a function of its area, which takes the client after ctx", name)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("api.Client has no method %s; its comment and this test name it", name)
	}
}
