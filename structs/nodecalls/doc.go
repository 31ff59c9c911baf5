// Package nodecalls has the requests that servers send to nodes, with their answers, and what nodes report on
// demand: calls to CSI plugins, checks of drivers, data of allocations, files and statistics.
//
// Reports that nodes send by themselves are in structs. Package server/nodeconn carries the calls.
package nodecalls
