// Package csi has the procedures of storage: volumes, plugins and claims. They record what a request wants
// and wait for the outcome. The loops of the leader call the plugins, and package release detaches volumes.
package csi
