// Package offer has the request that deletes an instance of a service. The instance itself is
// structs.ServiceInstance, because the row of its allocation has it.
package offer

import "berth/structs"

// Delete deletes an instance that is left of a node which is down.
var Delete = structs.Write[ServiceDeleteRequest, structs.Empty]("ServiceRegistration.DeleteByID")

// ServiceDeleteRequest names an instance by its service and its ID.
type ServiceDeleteRequest struct {
	ServiceName string
	ID          string
	structs.WriteOptions
}
