// Package hostvol has the dynamic host volumes of the dialect: their form, their rules and the requests about
// them. The row of one is a structs.CSIVolume with Host, so all that holds for the volumes of CSI plugins
// holds for it. The driver that comes with berth serves it, on one node.
package hostvol
