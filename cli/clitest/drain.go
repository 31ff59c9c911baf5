package clitest

import "berth/structs"

// DrainWaits returns the status of a drain that waits.
func DrainWaits(waits ...structs.DrainWait) structs.NodeDrainStatusResponse {
	return structs.NodeDrainStatusResponse{
		DrainStrategy: &structs.DrainStrategy{},
		Waits:         waits,
	}
}

// DrainEnded returns the status of a node whose last drain has this status.
func DrainEnded(status string) structs.NodeDrainStatusResponse {
	return structs.NodeDrainStatusResponse{LastDrain: &structs.DrainMetadata{Status: status}}
}
