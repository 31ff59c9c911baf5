package client

import "berth/structs"

// buildReal makes the subsystems of a real node.
func buildReal(p Parts) (*Subsystems, error) {
	return nil, structs.Errorf(structs.KindInternal, "the subsystems are not wired yet")
}
