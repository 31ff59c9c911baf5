package query

import (
	"errors"
	"testing"

	"berth/rpc"
	"berth/structs"
)

func TestAListThatFailsHalfwayIsAnError(t *testing.T) {
	broken := errors.New("broken")
	r := &rowByRow{list: "Nodes", resp: &structs.NodeListResponse{QueryMeta: structs.QueryMeta{Rows: func(do func(any) error) error {
		return errors.Join(do(&structs.NodeListStub{ID: "n1"}), broken)
	}}}}
	if _, err := rpc.AnswerBytes(r); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
