// Reads from the wire where a client first fetched each partition: kafkajs has no such getter.
'use strict'

const net = require('node:net')

const FETCH_KEY = 1
// Fetch v11 between header and topics: replica id, max wait, min and max bytes (4 each),
// isolation level (1), session id and epoch (4 each).
const BEFORE_TOPICS = 25

exports.Starts = class Starts {
  constructor() {
    this.offsets = new Map()
    this.socketFactory = ({ host, port, onConnect }) => {
      const socket = net.connect({ host, port }, onConnect)
      const write = socket.write.bind(socket)
      socket.write = (frame, ...rest) => {
        this.read(frame)
        return write(frame, ...rest)
      }
      return socket
    }
  }

  offset(topic, partition) {
    return this.offsets.get(`${topic} ${partition}`) ?? null
  }

  read(frame) {
    if (frame.readInt16BE(4) !== FETCH_KEY) {
      return
    }
    if (frame.readInt16BE(6) !== 11) {
      throw new Error(`Fetch v${frame.readInt16BE(6)}, expected v11`)
    }
    let at = 14 + frame.readInt16BE(12) + BEFORE_TOPICS
    for (let topics = frame.readInt32BE((at += 4) - 4); topics > 0; topics--) {
      const length = frame.readInt16BE(at)
      const topic = frame.toString('utf8', at + 2, at + 2 + length)
      at += 2 + length
      for (let partitions = frame.readInt32BE((at += 4) - 4); partitions > 0; partitions--) {
        const key = `${topic} ${frame.readInt32BE(at)}`
        if (!this.offsets.has(key)) {
          this.offsets.set(key, Number(frame.readBigInt64BE(at + 8)))
        }
        at += 28 // partition, leader epoch, fetch offset, log start offset, max bytes
      }
    }
  }
}
