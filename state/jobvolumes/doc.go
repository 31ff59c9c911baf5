// Package jobvolumes creates, adopts and gives up the volumes that jobs ask for: see structs/storage. All
// of it runs in the entries that change the jobs and place their allocations, so it follows their order.
package jobvolumes
