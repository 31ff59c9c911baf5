package services

import (
	"slices"
	"strconv"

	"berth/structs"
)

// checkID returns the ID of the check with an index of the service's instance.
func checkID(instanceID string, index int) string { return instanceID + "-" + strconv.Itoa(index) }

// worstStatus returns the worse one of two states of checks.
func worstStatus(a, b string) string {
	order := []string{"", structs.CheckPassing, structs.CheckWarning, structs.CheckPending, structs.CheckFailing}
	return order[max(0, slices.Index(order, a), slices.Index(order, b))]
}
