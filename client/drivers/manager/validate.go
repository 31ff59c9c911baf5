package manager

import (
	"context"

	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Endpoint is the procedure with which servers check the configs of tasks.
func (m *Manager) Endpoint() rpc.Endpoint {
	return rpc.Handle(nodecalls.ClientDriverValidate, m.validateConfigs)
}

func (m *Manager) validateConfigs(
	_ context.Context, req *nodecalls.ClientDriverValidateRequest,
) (*nodecalls.ClientDriverValidateResponse, error) {
	d, err := m.Driver(req.Driver)
	if err != nil {
		return nil, err
	}

	// The drivers accept references to values that only the node of a task knows.
	resp := &nodecalls.ClientDriverValidateResponse{LeavesReferences: true}
	for _, config := range req.Configs {
		fault := ""
		if err := d.Validate(config); err != nil {
			fault = structs.Cut(err.Error(), structs.MaxReason)
		}
		resp.Faults = append(resp.Faults, fault)
	}
	return resp, nil
}
