// Consumers of kafkajs, steered over lines of JSON as tests/clients/driver.py says.
'use strict'

const readline = require('node:readline')
const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')
const { rangeAssigner } = require('./range')
const { Starts } = require('./starts')

const ASSIGNERS = { roundrobin: PartitionAssigners.roundRobin, range: rangeAssigner }
const RETRY = { initialRetryTime: 50, maxRetryTime: 500, retries: 50 }

const say = (message) => process.stdout.write(JSON.stringify(message) + '\n')

class SteeredConsumer {
  constructor(settings) {
    this.name = settings.consumer
    this.group = settings.group
    this.settings = settings
    this.assignment = []
    this.joinedWith = []
    this.starts = new Starts()
    this.counts = new Map()
    this.readOne = async ({ topic, partition, message }) =>
      this.given(topic, partition, Number(message.offset))
    this.kafka = new Kafka({
      clientId: settings.consumer,
      brokers: settings.bootstrap.split(','),
      logLevel: logLevel.NOTHING,
      retry: RETRY,
      socketFactory: this.starts.socketFactory,
    })
    this.consumer = this.kafka.consumer({
      groupId: settings.group,
      partitionAssigners: [ASSIGNERS[settings.assignor]],
      sessionTimeout: settings.session_timeout_ms,
      heartbeatInterval: settings.heartbeat_interval_ms,
      rebalanceTimeout: settings.rebalance_timeout_ms,
      metadataMaxAge: settings.metadata_max_age_ms,
      maxWaitTimeInMs: 100,
      allowAutoTopicCreation: false,
      retry: RETRY,
    })
    const events = this.consumer.events
    this.consumer.on(events.GROUP_JOIN, ({ payload }) => this.assigned(payload.memberAssignment))
    this.consumer.on(events.REBALANCING, () => this.revoked())
    this.consumer.on(events.HEARTBEAT, () => this.goesOn())
    this.consumer.on(events.CRASH, ({ payload }) => this.crashed(payload))
  }

  async open() {
    await this.consumer.connect()
    await this.consumer.subscribe({
      topics: this.settings.pattern ? [new RegExp(this.settings.pattern)] : this.settings.topics,
      fromBeginning: this.settings.reset === 'earliest',
    })
    await this.consumer.run({ autoCommit: false, eachMessage: this.readOne })
  }

  async commit({ offsets }) {
    await this.consumer.commitOffsets(
      offsets.map(([topic, partition, offset]) => ({ topic, partition, offset: String(offset) }))
    )
  }

  async committed({ partitions }) {
    const admin = this.kafka.admin()
    await admin.connect()
    try {
      const topics = [...new Set(partitions.map(([topic]) => topic))]
      const found = new Map()
      for (const row of await admin.fetchOffsets({ groupId: this.group, topics })) {
        for (const { partition, offset } of row.partitions) {
          found.set(`${row.topic} ${partition}`, Number(offset))
        }
      }
      return partitions.map(([topic, partition]) => {
        const offset = found.get(`${topic} ${partition}`)
        return [topic, partition, offset >= 0 ? offset : null]
      })
    } finally {
      await admin.disconnect()
    }
  }

  async started({ partitions }) {
    return partitions.map(([topic, partition]) => [
      topic,
      partition,
      this.starts.offset(topic, partition),
    ])
  }

  given(topic, partition, offset) {
    const key = `${topic} ${partition}`
    const row = this.counts.get(key) ?? [topic, partition, 0, 0, 0]
    this.counts.set(key, row)
    if (offset < row[2]) {
      row[3] += 1
    } else {
      row[4] += offset - row[2]
      row[2] = offset + 1
    }
  }

  async read() {
    return [...this.counts.values()]
  }

  async close() {
    await this.consumer.disconnect()
  }

  // kafkajs joins eagerly: what it had before is gone with each new assignment.
  assigned(memberAssignment) {
    this.revoked()
    this.assignment = Object.entries(memberAssignment).flatMap(([topic, partitions]) =>
      partitions.map((partition) => [topic, partition])
    )
    this.joinedWith = this.assignment
    this.tell('assigned', this.assignment)
  }

  // It wants to join again when it hears NOT_COORDINATOR, too. Where the coordinator is not there
  // yet for the join, it goes on in its generation, with what it has there.
  goesOn() {
    if (this.assignment.length === 0 && this.joinedWith.length > 0) {
      this.assignment = this.joinedWith
      this.tell('assigned', this.assignment)
    }
  }

  revoked() {
    const partitions = this.assignment
    this.assignment = []
    if (partitions.length > 0) {
      this.tell('revoked', partitions)
    }
  }

  crashed({ error, restart }) {
    if (!restart) {
      say({ event: 'failed', consumer: this.name, error: String(error) })
    }
  }

  tell(event, partitions) {
    say({ event, consumer: this.name, partitions, assignment: this.assignment })
  }
}

const consumers = new Map()

const perform = async (request) => {
  if (request.op === 'open') {
    const consumer = new SteeredConsumer(request)
    consumers.set(request.consumer, consumer)
    return consumer.open()
  }
  return consumers.get(request.consumer)[request.op](request)
}

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const request = JSON.parse(line)
  try {
    say({ id: request.id, result: (await perform(request)) ?? null })
  } catch (error) {
    say({ id: request.id, error: String(error) })
  }
}).on('close', () => process.exit(0))
