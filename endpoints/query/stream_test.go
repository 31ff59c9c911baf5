package query

import (
	"errors"
	"testing"

	"berth/rpc"
	"berth/structs"
)

func TestStreamRows_ReturnsErrorOfRow(t *testing.T) {
	broken := errors.New("broken")
	resp := new(structs.NodeListResponse)
	resp.Rows = func(do func(any) error) error {
		return errors.Join(do(&structs.NodeListStub{ID: "n1"}), broken)
	}
	r := &streamedList{resp, "Nodes"}
	if _, err := rpc.ResponseBytes(r); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
